"""The muscle model of MuJoCo."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim._shared.checks import as_float_array, violates
from popsim.muscles.activation import AbstractActivation, FirstOrderActivation, check_above, check_parameters
from popsim.muscles.base import AbstractRigidTendonLaw, Muscles

__all__ = ["MujocoMuscle"]

SECOND_LONGEST = 0.95  # the end of the second bump


class MujocoMuscle(AbstractRigidTendonLaw):
    """force = max_isometric_force (a F V + P), with piecewise quadratic and cubic curves.

    With fibre length l, w = v / max_velocity, s = (l - 1) / ((longest - 1) / 2):

    - F = bump(l; shortest, 1, longest) + second_bump bump(l; shortest, (shortest + 0.95) / 2, 0.95), where a
        bump is two parabolas from zero at its start to one at its middle, and two back to zero at its end;
    - V = (1 + w)² in shortening, zero below w = -1; in lengthening plateau - (c - w)² / c up to
        w = c = plateau - 1, then the plateau;
    - P = passive_force s³ / 4 up to s = 1, then passive_force (1 + 3 (s - 1)) / 4; zero below the optimal
        length.

    This is the function FLV of MuJoCo's documentation (mujoco.readthedocs.io, "Muscles", FLV.m of 3.2.1).
    MuJoCo's engine differs (mju_muscleGain and mju_muscleBias in its source): it has no second bump, and its
    passive force is quadratic, 1.5 times as large at `longest`. There is no `lengthrange` here: lengths are
    scaled by tendon and optimal length.

    **Arguments:**

    - `max_isometric_force`: in N.
    - `optimal_length`, `tendon_length`: in m.
    - `activation`: by default with time constants of 10 ms and 40 ms, and `lowest` 0.
    - `shortest`, `longest`: the range of lengths with active force, in optimal lengths.
    - `max_velocity`: the maximal shortening velocity, in optimal lengths per second.
    - `plateau`: the force of fast lengthening, as a fraction of the isometric force; above one.
    - `passive_force`: at `longest`, as a fraction of the maximal isometric force.
    - `second_bump`: the height of the second bump.
    """

    activation: AbstractActivation = eqx.field(
        default_factory=lambda: FirstOrderActivation(0.01, 0.04), kw_only=True
    )
    shortest: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.5, kw_only=True)
    longest: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.6, kw_only=True)
    max_velocity: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.5, kw_only=True)
    plateau: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.2, kw_only=True)
    passive_force: Float[Array, "..."] = eqx.field(converter=as_float_array, default=1.3, kw_only=True)
    second_bump: Float[Array, "..."] = eqx.field(converter=as_float_array, default=0.15, kw_only=True)

    def __check_init__(self):
        names = ("shortest", "longest", "max_velocity", "plateau")
        check_parameters(self, positive=names, non_negative=("passive_force", "second_bump"))
        if violates(lambda shortest: shortest < SECOND_LONGEST, self.shortest):
            raise ValueError(f"`shortest` must be below {SECOND_LONGEST}, got {self.shortest}.")
        check_above("longest", self.longest, 1.0)
        check_above("plateau", self.plateau, 1.0)

    def force_share(self, activation: Muscles, length: Muscles, velocity: Muscles) -> Muscles:
        active = activation * self.force_length(length) * self.force_velocity(velocity)
        stretch = jnp.maximum(length - 1, 0.0) / ((self.longest - 1) / 2)
        curved = jnp.minimum(stretch, 1.0)
        return active + self.passive_force / 4 * (curved**3 + 3 * (stretch - curved))

    def force_length(self, length: Muscles) -> Muscles:
        """Return F, the active force at full activation and v = 0."""
        second = _bump(length, self.shortest, (self.shortest + SECOND_LONGEST) / 2, SECOND_LONGEST)
        return _bump(length, self.shortest, 1.0, self.longest) + self.second_bump * second

    def force_velocity(self, velocity: Muscles) -> Muscles:
        """Return V, the active force as a fraction of the isometric force."""
        relative = velocity / self.max_velocity
        shortened = jnp.maximum(1 + jnp.minimum(relative, 0.0), 0.0) ** 2
        surplus = self.plateau - 1
        short_of_it = surplus - jnp.clip(relative, 0.0, surplus)
        return shortened + surplus - short_of_it**2 / surplus


def _bump(length: Array, start: Array, middle: Array | float, end: Array | float) -> Array:
    rising = jnp.clip((length - start) / (middle - start), 0.0, 1.0)
    falling = jnp.clip((end - length) / (end - middle), 0.0, 1.0)
    return _two_parabolas(rising) * _two_parabolas(falling)


def _two_parabolas(x: Array) -> Array:
    """Rise from 0 at x = 0 to 1 at x = 1, with zero slope at both."""
    return 2 * x**2 - 4 * jnp.maximum(x - 0.5, 0.0) ** 2
