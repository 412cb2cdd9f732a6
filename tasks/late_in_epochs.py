"""A loss that counts the end of each of several epochs."""

import functools
import operator

import equinox as eqx
from jaxtyping import Array, Float

from popsim.checks import check_non_negative
from popsim.losses import AbstractTimeProfile, PowerProfile
from popsim.timeline import Timeline
from popsim.windows import InEpoch


class LateInEpochs(AbstractTimeProfile):
    """Weights (t / T)^exponent for t = 1 … T in each epoch whose name begins so; zero elsewhere.

    A `PowerProfile` for each of these epochs, T its own length; an epoch that a trial is without counts
    nothing.

    **Arguments:**

    - `prefix`: how the names begin: "reach" for "reach 1" and "reach 2".
    - `exponent`: 0 for the same weight at all steps.

    **Raises:** `ValueError` if `exponent` is negative and, when it is used, if no epoch is called so.
    """

    prefix: str = eqx.field(static=True)
    exponent: float = eqx.field(static=True, default=6.0)

    def __check_init__(self):
        check_non_negative("exponent", self.exponent)

    def __call__(self, timeline: Timeline) -> Float[Array, " time"]:
        named = [name for name in timeline.epochs if name.startswith(self.prefix)]
        if not named:
            raise ValueError(
                f"`prefix` must begin the name of one of the epochs {sorted(timeline.epochs)}, "
                f"got {self.prefix!r}."
            )
        profiles = [PowerProfile(self.exponent, window=InEpoch(name)) for name in named]
        return functools.reduce(operator.add, (profile(timeline) for profile in profiles))
