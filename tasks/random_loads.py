"""Plans of loads that differ from trial to trial: pulses, constant forces, curl fields."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim.batch_schedules import AbstractBatchSchedule
from popsim.checks import check_non_negative, check_positive_int
from popsim.distributions import AbstractDistribution, as_distribution
from popsim.intervention_plan import InterventionPlan
from popsim.per_member import PerMember
from popsim.randomness import key_stream
from popsim.tasks.drawn import check_drawn
from popsim.tasks.reach import at_direction, random_direction
from popsim.windows import AbstractWindow, InEpoch, WholeTrial

Share = float | Float[Array, ""] | PerMember | AbstractBatchSchedule

_THROUGHOUT = WholeTrial()


class DirectedVector(AbstractDistribution):
    """A vector of a drawn length in a drawn direction of the plane of the first two axes.

    **Arguments:**

    - `length`: a number or a distribution.
    - `n_directions`: how many even directions there are, the first to the right; None for all.
    - `n_axes`: two, or three for a vector in space.

    **Raises:** `ValueError` if a length may be negative, `n_directions` is not positive, or there are
    neither two nor three axes.
    """

    length: AbstractDistribution = eqx.field(converter=as_distribution)
    n_directions: int | None = eqx.field(static=True, kw_only=True, default=None)
    n_axes: int = eqx.field(static=True, kw_only=True, default=2)

    def __check_init__(self):
        check_drawn("length", self.length, check_non_negative)
        if self.n_directions is not None:
            check_positive_int("n_directions", self.n_directions)
        if self.n_axes not in (2, 3):
            raise ValueError(f"`n_axes` must be 2 or 3, got {self.n_axes!r}.")

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, "*shape"]:
        length = self.length.sample(key=key_stream(key, "length"))
        direction = random_direction(self.n_directions, key=key_stream(key, "direction"))
        return at_direction(jnp.zeros(self.n_axes, length.dtype), direction, length)

    def bounds(self) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        _, longest = self.length.bounds()
        high = jnp.zeros(self.n_axes, longest.dtype).at[:2].set(longest)
        return -high, high


def random_forces(
    magnitude: Any,
    *,
    n_directions: int | None = None,
    n_axes: int = 2,
    window: AbstractWindow = _THROUGHOUT,
    share: Share = 1.0,
    told_as: str | None = None,
) -> InterventionPlan:
    """Forces on the hand, of a magnitude and in a direction that each trial draws; for a `ConstantForce`.

    **Arguments:**

    - `magnitude`: in N; a number or a distribution.
    - `n_directions`: how many even directions there are; None for all.
    - `n_axes`: those of the hand, two or three; forces are in the plane of the first two.
    - `window`, `share`, `told_as`: when in a trial, in which share of the trials, and as which input the
        network is told of it, see `InterventionPlan`.

    **Raises:** `ValueError` as `DirectedVector` does.
    """
    force = DirectedVector(magnitude, n_directions=n_directions, n_axes=n_axes)
    return InterventionPlan("constant force", force, window=window, share=share, told_as=told_as)


def load_pulses(
    magnitude: Any,
    *,
    n_directions: int | None = None,
    n_axes: int = 2,
    share: Share = 1.0,
) -> InterventionPlan:
    """Pulses of force on the hand in the epoch "pulse" of a `PosturalHold`; for a `ConstantForce`.

    Arguments and errors as for `random_forces`.
    """
    return random_forces(
        magnitude, n_directions=n_directions, n_axes=n_axes, window=InEpoch("pulse"), share=share
    )


def random_curl_fields(
    strength: Any,
    *,
    window: AbstractWindow = _THROUGHOUT,
    share: Share = 1.0,
    told_as: str | None = None,
) -> InterventionPlan:
    """Curl fields of a strength that each trial draws; for a `CurlField`.

    **Arguments:**

    - `strength`: b, in N s/m, positive for forces to the right of the movement; a number or a distribution.
    - `window`, `share`, `told_as`: as for `random_forces`.
    """
    return InterventionPlan(
        "curl field", as_distribution(strength), window=window, share=share, told_as=told_as
    )
