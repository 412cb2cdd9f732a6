"""Sensory channels: what is sensed, how late, and how noisily."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from popsim.checks import check_non_negative
from popsim.loop_state import LoopState
from popsim.noise import AbstractNoise, NoNoise
from popsim.parameters import Constants
from popsim.plants import AbstractPlant


class SensoryChannel(eqx.Module):
    """One sense.

    **Arguments:**

    - `sense`: a function `(state, plant) -> features`, such as `vision` or `proprioception`; see
        `popsim.senses`.
    - `delay`: how long it takes to reach the network, in seconds; a multiple of the loop's dt. With
        delay 0 the network senses the state at the start of the same step.
    - `noise`: added to what arrives, in the unit of what is sensed.

    **Raises:** `ValueError` if `delay` is negative or not finite.
    """

    constants: ClassVar[Constants] = "all"
    sense: Callable[[LoopState, AbstractPlant], Float[Array, " features"]] = eqx.field(static=True)
    delay: float = eqx.field(static=True, default=0.0)
    noise: AbstractNoise = NoNoise()

    def __check_init__(self):
        check_non_negative("delay", self.delay)
        if not isinstance(self.noise, AbstractNoise):
            raise ValueError(f"`noise` must be a noise such as GaussianNoise, got {self.noise!r}.")
