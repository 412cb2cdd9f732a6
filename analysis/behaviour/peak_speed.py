"""How fast the hand was at most, and when."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.checks import check_positive


class PeakSpeed(NamedTuple):
    """The largest speed of each movement.

    - `speed`: in m/s.
    - `time`: when, in s since the beginning of the trial.
    """

    speed: Float[np.ndarray, "*axes trial"]
    time: Float[np.ndarray, "*axes trial"]


def peak_speed(speed: Float[AnyArray, "*axes trial time"], *, dt: float) -> PeakSpeed:
    """The peak of each speed profile, found between the time steps.

    It is that of the parabola through the fastest step and the two beside it. Where the first or the last
    step is the fastest, it is that step.

    **Arguments:**

    - `speed`: of the hand, in m/s, see `hand_speed`; row t is at time (t + 1) dt.
    - `dt`: the time step in s.

    **Raises:** `ValueError` if `speed` is not finite or `dt` not positive.
    """
    check_positive("dt", dt)
    values = finite_float64("speed", speed)
    fastest = np.argmax(values, axis=-1)
    inner = np.clip(fastest, 1, max(values.shape[-1] - 2, 1))
    if values.shape[-1] < 3:
        return PeakSpeed(values.max(axis=-1), dt * (fastest + 1.0))

    def at(step: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, step[..., None], axis=-1)[..., 0]

    before, top, after = at(inner - 1), at(inner), at(inner + 1)
    bend = before - 2 * top + after
    is_parabola = (inner == fastest) & (bend < 0)
    shift = np.where(is_parabola, (before - after) / (2 * np.where(is_parabola, bend, 1.0)), 0.0)
    height = np.where(is_parabola, top - (before - after) * shift / 4, at(fastest))
    return PeakSpeed(height, dt * (fastest + 1 + shift))
