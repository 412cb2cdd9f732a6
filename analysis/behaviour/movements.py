"""Speed and timing of movements."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from popsim._shared.checks import check_positive, check_time_step, n_steps_in
from popsim.analysis._arrays import AnyArray, TimeCourses, check_between_0_and_1, finite_float64
from popsim.analysis.trial_times import trial_time_axes, window_mask
from popsim.hand import HandState
from popsim.trial import Trial
from popsim.windows import FromEvent

__all__ = [
    "hand_speed",
    "cursor_error",
    "end_point_error",
    "PeakSpeed",
    "peak_speed",
    "count_speed_peaks",
    "FractionOfPeak",
    "FixedSpeed",
    "SpeedThreshold",
    "movement_onset",
    "movement_offset",
    "movement_duration",
    "reaction_time",
    "preparatory_activity",
]


def hand_speed(hand: HandState) -> Float[Array, "*axes time"]:
    """Return the tangential speed of the hand at each time step, in m/s."""
    return jnp.linalg.norm(hand.velocity, axis=-1)


def cursor_error(cursor: HandState, targets: HandState) -> Float[Array, "*axes trial time"]:
    """Return the distance from the cursor to the target at each time step, in m.

    Reduce it over an epoch, or from an event on, with `last_value_in_window` or `mean_in_window`.

    **Arguments:** as for `end_point_error`.
    """
    return jnp.linalg.norm(cursor.position - targets.position, axis=-1)


def end_point_error(cursor: HandState, targets: HandState) -> Float[Array, "*axes trial"]:
    """Return the distance from the cursor to the target at the last time step, in m.

    **Arguments:**

    - `cursor`: the visible position of the hand, with leading axes such as (member, trial, time).
    - `targets`: those of the trials, with leading axes (trial, time).
    """
    return jnp.linalg.norm(cursor.position[..., -1, :] - targets.position[:, -1], axis=-1)


class PeakSpeed(NamedTuple):
    """The largest speed of each movement, in m/s, and its time since the beginning of the trial, in s."""

    speed: Float[np.ndarray, "*axes trial"]
    time: Float[np.ndarray, "*axes trial"]


def peak_speed(speed: TimeCourses, *, dt: float) -> PeakSpeed:
    """Return the peak of each speed profile, interpolated between time steps.

    The peak is that of the parabola through the fastest step and its two neighbours, if it has two.
    """
    check_time_step(dt)
    values = finite_float64("speed", speed)
    fastest = np.argmax(values, axis=-1)
    inner = np.clip(fastest, 1, max(values.shape[-1] - 2, 1))
    if values.shape[-1] < 3:
        return PeakSpeed(values.max(axis=-1), dt * (fastest + 1.0))

    before, top, after = (_at(values, inner + step) for step in (-1, 0, 1))
    bend = before - 2 * top + after
    is_parabola = (inner == fastest) & (bend < 0)
    shift = np.where(is_parabola, (before - after) / (2 * np.where(is_parabola, bend, 1.0)), 0.0)
    height = np.where(is_parabola, top - (before - after) * shift / 4, _at(values, fastest))
    return PeakSpeed(height, dt * (fastest + 1 + shift))


def count_speed_peaks(speed: TimeCourses, *, prominence: float = 0.05) -> Int[np.ndarray, "*axes trial"]:
    """Return the number of peaks of each speed profile; more than one suggests submovements.

    The hand is taken to be at rest before and after the trial.

    **Arguments:**

    - `prominence`: the minimum height of a peak above the higher of its adjacent valleys
        (`scipy.signal.find_peaks`), as a share of the largest speed of the trial; above 0 and below 1.
    """
    from scipy.signal import find_peaks

    check_between_0_and_1("prominence", prominence)
    values = finite_float64("speed", speed)
    rest_state = np.zeros_like(values[..., :1])
    profiles = np.concatenate([rest_state, values, rest_state], axis=-1).reshape(-1, values.shape[-1] + 2)
    counts = [find_peaks(profile, prominence=prominence * profile.max())[0].size for profile in profiles]
    return np.array(counts, dtype=int).reshape(values.shape[:-1])


@dataclasses.dataclass(frozen=True)
class FractionOfPeak:
    """A speed threshold at a share of the peak speed of each movement."""

    fraction: float = 0.05

    def __post_init__(self):
        check_between_0_and_1("fraction", self.fraction)

    def speed(self, peak: Float[np.ndarray, "*trial"]) -> Float[np.ndarray, "*trial"]:
        """Return the threshold of movements with these peak speeds; both in m/s."""
        return self.fraction * peak


@dataclasses.dataclass(frozen=True)
class FixedSpeed:
    """A fixed speed threshold, in m/s."""

    threshold: float

    def __post_init__(self):
        check_positive("threshold", self.threshold)

    def speed(self, peak: Float[np.ndarray, "*trial"]) -> Float[np.ndarray, "*trial"]:
        """Return the threshold for each movement, in m/s."""
        return np.full_like(peak, self.threshold)


SpeedThreshold = FractionOfPeak | FixedSpeed
"""A threshold above which the hand counts as moving."""


def movement_onset(
    speed: TimeCourses, threshold: SpeedThreshold, *, dt: float
) -> Float[np.ndarray, "*axes trial"]:
    """Return the onset of each movement, in s since the beginning of the trial.

    The onset is the last time before the peak at which the speed is not above the threshold, interpolated
    linearly between steps; the speed is zero at the beginning of the trial. NaN where no step is above it.

    **Arguments:**

    - `threshold`: `FractionOfPeak(0.05)`, or `FixedSpeed(0.02)` in m/s.
    """
    check_time_step(dt)
    forwards = prepend_rest(finite_float64("speed", speed))
    return dt * onset_step(forwards, np.argmax(forwards, axis=-1), threshold)


def movement_offset(
    speed: TimeCourses, threshold: SpeedThreshold, *, dt: float
) -> Float[np.ndarray, "*axes trial"]:
    """Return the end of each movement, in s since the beginning of the trial.

    The end is the first time after the peak at which the speed is not above the threshold. NaN where the
    speed stays above it to the end of the trial, or never exceeds it.

    **Arguments:** as for `movement_onset`.
    """
    check_time_step(dt)
    backwards = prepend_rest(finite_float64("speed", speed))[..., ::-1]
    step = onset_step(backwards, np.argmax(backwards, axis=-1), threshold)
    return dt * (backwards.shape[-1] - 1 - step)


def movement_duration(
    speed: TimeCourses, threshold: SpeedThreshold, *, dt: float
) -> Float[np.ndarray, "*axes trial"]:
    """Return the time from the onset to the offset of each movement, in s; NaN where either is NaN.

    **Arguments:** as for `movement_onset`.
    """
    return movement_offset(speed, threshold, dt=dt) - movement_onset(speed, threshold, dt=dt)


def onset_step(
    speed: Float[np.ndarray, "*axes time"], peak: Int[np.ndarray, "*axes"], threshold: SpeedThreshold
) -> Float[np.ndarray, "*axes"]:
    """Return the fractional step at which the speed last rose above the threshold before the step `peak`."""
    if not isinstance(threshold, SpeedThreshold):
        raise ValueError(f"`threshold` must be FractionOfPeak(0.05) or FixedSpeed(0.02), got {threshold!r}.")
    highest = _at(speed, peak)
    limit = threshold.speed(highest)
    is_slow: Bool[np.ndarray, "*axes time"] = speed <= limit[..., None]
    is_slow &= np.arange(speed.shape[-1]) < peak[..., None]
    last_slow = speed.shape[-1] - 1 - np.argmax(is_slow[..., ::-1], axis=-1)
    below, above = _at(speed, last_slow), _at(speed, np.minimum(last_slow + 1, peak))
    rise = np.where(above > below, above - below, 1.0)
    has_onset = is_slow.any(axis=-1) & (highest > limit)
    return np.where(has_onset, last_slow + (limit - below) / rise, np.nan)


def prepend_rest(speed: Float[np.ndarray, "*axes time"]) -> Float[np.ndarray, "*axes time_and_start"]:
    """Prepend a speed of zero at the beginning of the trial, so that row t is at time t dt."""
    return np.concatenate([np.zeros_like(speed[..., :1]), speed], axis=-1)


def _at(values: Float[np.ndarray, "*axes time"], step: np.ndarray) -> Float[np.ndarray, "*axes"]:
    return np.take_along_axis(values, step[..., None], axis=-1)[..., 0]


def reaction_time(
    speed: TimeCourses, trials: Trial, event: str, threshold: SpeedThreshold
) -> Float[np.ndarray, "*axes trial"]:
    """Return the onset of the movement after an event, such as "go cue", in s from that event.

    The movement is the fastest one after the event, which occurs at the beginning of its step; the onset is
    that of `movement_onset`, negative if the hand was already moving. NaN without the event or a movement.
    """
    values = finite_float64("speed", speed, f"... {trial_time_axes(trials)}")
    comes = np.asarray(trials.timeline.happens(event))
    step = np.where(comes, np.asarray(trials.timeline.events[event]), 0)
    forwards = prepend_rest(values)
    is_after = np.arange(forwards.shape[-1]) >= step[:, None]
    peak = np.argmax(np.where(is_after, forwards, -1.0), axis=-1)
    onset = onset_step(forwards, peak, threshold)
    return trials.timeline.dt * np.where(comes, onset - step, np.nan)


def preparatory_activity(
    hidden: Float[AnyArray, "*axes trial time unit"], trials: Trial, event: str, *, duration: float
) -> Float[np.ndarray, "*axes trial unit"]:
    """Return the mean activity of each unit in the last `duration` seconds before an event, such as "go cue".

    The step of the event is excluded, because the network receives the cue there. NaN in trials in which the
    event does not occur, or occurs earlier than `duration`.

    **Arguments:**

    - `duration`: in s, a positive multiple of the time step.
    """
    values = finite_float64("hidden", hidden, f"... {trial_time_axes(trials)} unit")
    dt = trials.timeline.dt
    if (n_steps := n_steps_in("duration", duration, dt)) == 0:
        raise ValueError(f"`duration` must be at least the time step, {dt} s, got {duration} s.")
    mask = np.asarray(window_mask(trials, FromEvent(event, delay=-duration, duration=duration)))
    mean = np.einsum("...tsu,ts->...tu", values, mask / n_steps)
    return np.where((mask.sum(axis=-1) == n_steps)[:, None], mean, np.nan)
