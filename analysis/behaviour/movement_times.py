"""When a movement began, when it ended, and how long it took."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.checks import check_positive


@dataclasses.dataclass(frozen=True)
class ShareOfPeak:
    """A movement lasts while the hand is faster than a share of its own peak speed.

    **Raises:** `ValueError` if `share` is not above zero and below one.
    """

    share: float = 0.05

    def __post_init__(self):
        if not 0 < self.share < 1:
            raise ValueError(f"`share` of the peak speed must be above 0 and below 1, got {self.share}.")

    def speed(self, peak: Float[np.ndarray, "*trial"]) -> Float[np.ndarray, "*trial"]:
        """The threshold of movements with these peak speeds; both in m/s."""
        return self.share * peak


@dataclasses.dataclass(frozen=True)
class FixedSpeed:
    """A movement lasts while the hand is faster than `threshold`, in m/s.

    **Raises:** `ValueError` if `threshold` is not positive.
    """

    threshold: float

    def __post_init__(self):
        check_positive("threshold", self.threshold)

    def speed(self, peak: Float[np.ndarray, "*trial"]) -> Float[np.ndarray, "*trial"]:
        """The threshold of movements, whatever their peak speeds (m/s)."""
        return np.full_like(peak, self.threshold)


SpeedThreshold = ShareOfPeak | FixedSpeed
"""What counts as moving."""


def movement_onset(
    speed: Float[AnyArray, "*axes trial time"], threshold: SpeedThreshold, *, dt: float
) -> Float[np.ndarray, "*axes trial"]:
    """When each movement begins, in s since the beginning of the trial.

    Walking back from the fastest step, the first time at which the hand is no faster than the threshold:
    slow drift long before a movement does not count. Between two steps the speed is taken to change in a
    straight line; at the beginning of the trial, a step before the first row, the hand is taken to rest. NaN
    where no step is faster than the threshold.

    **Arguments:**

    - `speed`: of the hand, in m/s, see `hand_speed`; row t is at time (t + 1) dt.
    - `threshold`: `ShareOfPeak(0.05)`, or `FixedSpeed(0.02)` in m/s.
    - `dt`: the time step in s.

    **Raises:** `ValueError` if `speed` is not finite or `dt` not positive.
    """
    check_positive("dt", dt)
    forwards = from_rest(finite_float64("speed", speed))
    return dt * onset_step(forwards, np.argmax(forwards, axis=-1), threshold)


def movement_offset(
    speed: Float[AnyArray, "*axes trial time"], threshold: SpeedThreshold, *, dt: float
) -> Float[np.ndarray, "*axes trial"]:
    """When each movement ends, in s since the beginning of the trial.

    Walking on from the fastest step, the first time at which the hand is no faster than the threshold. NaN
    where it is faster to the end of the trial, or never.

    **Arguments:** as for `movement_onset`.

    **Raises:** as `movement_onset`.
    """
    check_positive("dt", dt)
    backwards = from_rest(finite_float64("speed", speed))[..., ::-1]
    step = onset_step(backwards, np.argmax(backwards, axis=-1), threshold)
    return dt * (backwards.shape[-1] - 1 - step)


def movement_duration(
    speed: Float[AnyArray, "*axes trial time"], threshold: SpeedThreshold, *, dt: float
) -> Float[np.ndarray, "*axes trial"]:
    """How long each movement takes, in s: from its onset to its offset; NaN where one of both is.

    **Arguments:** as for `movement_onset`.

    **Raises:** as `movement_onset`.
    """
    return movement_offset(speed, threshold, dt=dt) - movement_onset(speed, threshold, dt=dt)


def onset_step(
    speed: Float[np.ndarray, "*axes time"], peak: Int[np.ndarray, "*axes"], threshold: SpeedThreshold
) -> Float[np.ndarray, "*axes"]:
    """The step, and its fraction, at which the speed last rose above the threshold before the step `peak`."""
    if not isinstance(threshold, SpeedThreshold):
        raise ValueError(f"`threshold` must be ShareOfPeak(0.05) or FixedSpeed(0.02), got {threshold!r}.")
    highest = _at(speed, peak)
    limit = threshold.speed(highest)
    is_slow: Bool[np.ndarray, "*axes time"] = speed <= limit[..., None]
    is_slow &= np.arange(speed.shape[-1]) < peak[..., None]
    last_slow = speed.shape[-1] - 1 - np.argmax(is_slow[..., ::-1], axis=-1)
    below, above = _at(speed, last_slow), _at(speed, np.minimum(last_slow + 1, peak))
    rise = np.where(above > below, above - below, 1.0)
    found = is_slow.any(axis=-1) & (highest > limit)
    return np.where(found, last_slow + (limit - below) / rise, np.nan)


def from_rest(speed: Float[np.ndarray, "*axes time"]) -> Float[np.ndarray, "*axes time_and_start"]:
    """The speed from the beginning of the trial on, where it is zero: row t is then at time t dt."""
    return np.concatenate([np.zeros_like(speed[..., :1]), speed], axis=-1)


def _at(values: Float[np.ndarray, "*axes time"], step: np.ndarray) -> Float[np.ndarray, "*axes"]:
    return np.take_along_axis(values, step[..., None], axis=-1)[..., 0]
