"""The muscle model of Thelen (2003)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim._shared.checks import as_float_array
from popsim.muscles.activation import AbstractActivation, FirstOrderActivation, check_above, check_parameters
from popsim.muscles.base import AbstractRigidTendonLaw, Muscles

__all__ = ["ThelenMuscle"]

LONGEST_CURVED = 2.0  # optimal lengths


class ThelenMuscle(AbstractRigidTendonLaw):
    """force = max_isometric_force (a F V + P), with fibre length l and velocity v.

    - F = exp(-(l - 1)² / width);
    - V, with w = v / ((0.25 + 0.75 a) max_velocity): shortening (1 + w) / (1 - w / curvature), zero below
        w = -1; lengthening (1 + c w plateau) / (1 + c w), with c = (2 + 2 / curvature) / (plateau - 1);
    - P = (exp(k (l - 1) / e) - 1) / (exp(k) - 1) above the optimal length, with passive steepness k and
        passive strain e. Unlike in the paper, it is linear from two optimal lengths: the exponential would
        reach 10³⁰ at ten.

    Thelen 2003, J Biomech Eng 125:70-77, eqs. 3, 6 and 7 with the constants of young adults; equations as in
    OpenSim's Thelen2003Muscle, equations and constants as in MotorNet.

    **Arguments:**

    - `max_isometric_force`: in N.
    - `optimal_length`, `tendon_length`: in m.
    - `activation`: by default with `lowest` 0.001.
    - `width`: γ, the width of the active force-length curve.
    - `max_velocity`: the maximal shortening velocity at full activation, in optimal lengths per second.
    - `curvature`: A_f of shortening.
    - `plateau`: the force of fast lengthening, as a fraction of the isometric force; above one.
    - `passive_steepness`, `passive_strain`: k and e. The passive force equals the maximal isometric force at
        the length 1 + e.
    """

    activation: AbstractActivation = eqx.field(
        default_factory=lambda: FirstOrderActivation(lowest=0.001), kw_only=True
    )
    width: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.45, kw_only=True)
    max_velocity: Float[Array, "..."] = eqx.field(converter=as_float_array, default=10.0, kw_only=True)
    curvature: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.25, kw_only=True)
    plateau: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.4, kw_only=True)
    passive_steepness: Float[Array, "..."] = eqx.field(converter=as_float_array, default=5.0, kw_only=True)
    passive_strain: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.6, kw_only=True)

    def __check_init__(self):
        names = ("width", "max_velocity", "curvature", "plateau", "passive_steepness", "passive_strain")
        check_parameters(self, positive=names)
        check_above("plateau", self.plateau, 1.0)

    def force_share(self, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        active = activation * jnp.exp(-((length - 1) ** 2) / self.width)
        return active * self.force_velocity(activation, velocity) + self.passive_force(length)

    def force_velocity(self, activation: Muscles, velocity: Muscles) -> Muscles:
        """Return V, the active force as a fraction of the isometric force."""
        relative = velocity / ((0.25 + 0.75 * activation) * self.max_velocity)
        # One of the two is zero, so the branches add up. In each, the denominator stays away from zero, also
        # where the other one applies: neither value nor gradient becomes NaN.
        shortening = jnp.minimum(relative, 0.0)
        lengthening = jnp.maximum(relative, 0.0) * (2 + 2 / self.curvature)
        shortened = jnp.maximum(1 + shortening, 0.0) / (1 - shortening / self.curvature)
        return shortened + (self.plateau - 1) * lengthening / (self.plateau - 1 + lengthening)

    def passive_force(self, length: Muscles) -> Muscles:
        """Return P, in maximal isometric forces."""
        steepness = self.passive_steepness / self.passive_strain
        stretch = jnp.maximum(length - 1, 0.0)
        # The argument of the exponential is clipped, not its result: an overflow in a branch that is not
        # taken still reaches the gradient.
        curved = jnp.minimum(stretch, LONGEST_CURVED - 1)
        growth = jnp.exp(steepness * curved) * (1 + steepness * (stretch - curved))
        return (growth - 1) / jnp.expm1(self.passive_steepness)
