"""The time step at which a time falls: the one rule for times of tasks, windows, delays and analyses."""

import math
from typing import Any, overload

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

# Half a step is rounded up. Sums of times like .125 s, and their quotients by dt, miss it by rounding errors
# of either sign: what is nearer than a ten-thousandth of a step counts as half a step.
HALF = 0.5 + 1e-4


Seconds = float | np.floating


@overload
def step_at(seconds: Seconds, dt: float) -> int: ...
@overload
def step_at(seconds: Float[Array, "*axes"], dt: float) -> Int[Array, "*axes"]: ...
def step_at(seconds: Any, dt: float) -> Any:
    """Return the number of the time step nearest to a time, floor(t / dt + 1/2); half a step counts up.

    Times are rounded since the start of the trial or since an event, not durations one by one: four epochs of
    .125 s at dt = .01 s end at the steps 13, 25, 38 and 50.
    """
    if isinstance(seconds, int | float | np.generic):
        return math.floor(float(seconds) / dt + HALF)
    return jnp.floor(seconds / dt + HALF).astype(int)


def is_on_grid(seconds: Seconds, dt: float) -> bool:
    """Return whether a time is a multiple of the time step, to 1e-6 s or a hundredth of a step."""
    return bool(abs(step_at(seconds, dt) * dt - seconds) <= min(1e-6, 0.01 * dt))


def nearest_times(seconds: Seconds, dt: float) -> str:
    """Return the multiples of the time step on both sides of a time, as text."""
    below = math.floor(seconds / dt)
    return f"{below * dt:.6g} s and {(below + 1) * dt:.6g} s"
