"""A muscle that pulls by its activation alone."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim.checks import as_float_array
from popsim.muscles.activation import FirstOrderActivation
from popsim.muscles.parameters import check_parameters
from popsim.muscles.rigid_tendon import AbstractRigidTendonMuscle


class ReluMuscle(AbstractRigidTendonMuscle):
    """force = max_isometric_force activation, at any length and velocity.

    **Arguments:**

    - `max_isometric_force`: in N.
    - `optimal_length`, `tendon_length`: in m. They scale only what `fibre` reports; by default it is the
        musculotendon itself, in metres.
    - `activation`: by default down to zero.

    **Raises:** `ValueError` if a force or length is not positive (the tendon's: is negative), or shapes
    disagree.
    """

    max_isometric_force: Float[Array, "..."] = eqx.field(converter=as_float_array)
    optimal_length: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.0)
    tendon_length: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.0, kw_only=True)
    activation: FirstOrderActivation = eqx.field(default_factory=FirstOrderActivation, kw_only=True)

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
        return activation
