"""Sensory channels: what is sensed of body and world, how late, and how noisily."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.checks import check_non_negative
from popsim.loop_state import LoopState
from popsim.noise import AbstractNoise, NoNoise
from popsim.plants import AbstractPlant


def vision(state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
    """Position (m) and velocity (m/s) of the cursor that stands for the hand."""
    return jnp.concatenate([state.cursor.position, state.cursor.velocity])


def proprioception(state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
    """What the body feels of itself: joint angles (rad) and velocities (rad/s) of an arm."""
    return plant.proprioception(state.plant)


class SensoryChannel(eqx.Module):
    """One sense.

    **Arguments:**

    - `sense`: a function `(state, plant) -> features`, such as `vision` or `proprioception`.
    - `delay`: how long it takes to reach the network, in seconds; a multiple of the loop's dt. With
        delay 0 the network senses the state at the start of the same step.
    - `noise`: added to what arrives, in the unit of what is sensed.

    **Raises:** `ValueError` if `delay` is negative or not finite.
    """

    sense: Callable[[LoopState, AbstractPlant], Float[Array, " features"]] = eqx.field(static=True)
    delay: float = eqx.field(static=True, default=0.0)
    noise: AbstractNoise = NoNoise()

    def __check_init__(self):
        check_non_negative("delay", self.delay)
        if not isinstance(self.noise, AbstractNoise):
            raise ValueError(f"`noise` must be a noise such as GaussianNoise, got {self.noise!r}.")
