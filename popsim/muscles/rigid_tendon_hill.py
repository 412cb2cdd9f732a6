"""The Hill-type muscle of Kistemaker on a rigid tendon."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim.checks import as_float_array
from popsim.muscles.activation import FirstOrderActivation
from popsim.muscles.hill_curves import HillCurves
from popsim.muscles.parameters import check_parameters
from popsim.muscles.rigid_tendon import AbstractRigidTendonMuscle


class RigidTendonHillMuscle(AbstractRigidTendonMuscle):
    """Active and passive force by the curves of Kistemaker; see `HillCurves` for equations and sources.

    At full activation and optimal length it is without force at -12.7 optimal lengths per second.

    **Arguments:**

    - `max_isometric_force`: in N.
    - `optimal_length`, `tendon_length`: in m.
    - `activation`: by default down to 0.001.
    - `curves`: its constants.

    **Raises:** `ValueError` if a force or length is not positive (the tendon's: is negative), or shapes
    disagree.
    """

    max_isometric_force: Float[Array, "..."] = eqx.field(converter=as_float_array)
    optimal_length: Float[Array, "..."] = eqx.field(converter=as_float_array)
    tendon_length: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.0, kw_only=True)
    activation: FirstOrderActivation = eqx.field(
        default_factory=lambda: FirstOrderActivation(lowest=0.001), kw_only=True
    )
    curves: HillCurves = eqx.field(default_factory=HillCurves, kw_only=True)

    def __check_init__(self):
        check_parameters(
            self, positive=("max_isometric_force", "optimal_length"), non_negative=("tendon_length",)
        )

    def force_share(
        self,
        activation: Float[Array, " muscles"],
        length: Float[Array, " muscles"],
        velocity: Float[Array, " muscles"],
    ) -> Float[Array, " muscles"]:
        active = self.curves.active_force(activation, length, velocity)
        return active + self.curves.passive_force(length)
