"""Choices, decision times and produced intervals."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from popsim._shared.checks import check_positive, check_time_step
from popsim.analysis._arrays import AnyArray, TimeCourses, as_float64, check_axes, finite_float64

__all__ = [
    "ChoiceFractions",
    "choice_fractions",
    "produced_interval",
    "ChronometricCurve",
    "decision_time",
    "chronometric_curve",
]


class ChoiceFractions(NamedTuple):
    """The share of trials with a given choice at each coherence.

    - `coherence`: the distinct coherences, ascending.
    - `fraction`: the share of the trials of that coherence, from 0 to 1.
    - `n_trials`: the number of trials of each coherence.
    """

    coherence: Float[np.ndarray, " level"]
    fraction: Float[np.ndarray, "*axes level"]
    n_trials: Int[np.ndarray, " level"]


def choice_fractions(
    coherence: Float[AnyArray, " trial"], chose_right: Bool[AnyArray, "*axes trial"]
) -> ChoiceFractions:
    """Return the points of the psychometric curve of each member.

    **Arguments:**

    - `coherence`: of each trial, signed: positive for the choice that is counted.
    - `chose_right`: whether that choice was made, with leading axes such as (member).
    """
    signed, choices = finite_float64("coherence", coherence, "trial"), np.asarray(chose_right)
    check_axes("chose_right", choices, f"... trial={signed.size}")
    levels, level_index, counts = np.unique(signed, return_inverse=True, return_counts=True)
    is_of = np.equal(level_index[:, None], np.arange(levels.size)).astype(np.float64)
    return ChoiceFractions(levels, choices.astype(np.float64) @ is_of / counts, counts)


def produced_interval(
    output: Float[Array, "*trial time"], start: Int[Array, "*trial"], *, dt: float, threshold: float = 1.0
) -> Float[Array, "*trial"]:
    """Return the time from a step, such as that of "set", until the output reaches a threshold, in s.

    Time is counted from the state in row `start`, at the end of that step, as `ReadySetGo` counts the target
    interval. The crossing is interpolated linearly between steps. Zero if row `start` is already at or above
    the threshold, infinite if the threshold is never reached.

    **Arguments:**

    - `output`: one output of a network.
    - `start`: the step from which time is counted.
    - `dt`: the time step in s.
    - `threshold`: the output to reach.
    """
    check_time_step(dt)
    steps = jnp.arange(output.shape[-1])
    is_above = (output >= threshold) & (steps >= start[..., None])
    crossed = jnp.argmax(is_above, axis=-1)

    def at(step: Int[Array, "*trial"]) -> Float[Array, "*trial"]:
        return jnp.take_along_axis(output, step[..., None], axis=-1)[..., 0]

    after, before = at(crossed), at(jnp.maximum(crossed - 1, 0))
    is_later = crossed > start
    beyond = jnp.where(is_later, (after - threshold) / jnp.where(is_later, after - before, 1.0), 0.0)
    interval = dt * ((crossed - start).astype(output.dtype) - beyond)
    return jnp.where(jnp.any(is_above, axis=-1), interval, jnp.inf)


class ChronometricCurve(NamedTuple):
    """The mean decision time at each coherence.

    - `coherence`: the distinct coherences, ascending.
    - `mean`: over the decided trials, in s; NaN if there are none.
    - `standard_error`: of that mean over trials, in s; NaN with fewer than two decided trials.
    - `share_decided`: the share of decided trials, from 0 to 1.
    """

    coherence: Float[np.ndarray, " level"]
    mean: Float[np.ndarray, "*axes level"]
    standard_error: Float[np.ndarray, "*axes level"]
    share_decided: Float[np.ndarray, "*axes level"]


def decision_time(
    output: TimeCourses, start: Int[AnyArray, " trial"], *, dt: float, threshold: float
) -> Float[np.ndarray, "*axes trial"]:
    """Return the time from the start of a step until |output| first reaches a threshold, in s; NaN if never.

    Time is counted as in `reaction_time`: row t is at time (t + 1) dt, and an event at step `start` occurs at
    time start dt. The result is therefore `produced_interval` of |output| plus dt, and dt if the threshold is
    already reached in row `start`.

    **Arguments:**

    - `output`: positive for one choice and negative for the other.
    - `start`: the step from whose beginning time is counted, such as
        `trials.timeline.epochs["stimulus"][:, 0]`.
    - `dt`: the time step in s.
    - `threshold`: in the unit of the output.
    """
    check_positive("threshold", threshold)
    distance = np.abs(finite_float64("output", output))
    with jax.enable_x64(True):
        begins = jnp.broadcast_to(jnp.asarray(np.asarray(start)), distance.shape[:-1])
        interval = produced_interval(jnp.asarray(distance), begins, dt=dt, threshold=threshold)
        return np.where(np.isfinite(interval), np.asarray(interval) + dt, np.nan)


def chronometric_curve(
    coherence: Float[AnyArray, " trial"], times: Float[AnyArray, "*axes trial"]
) -> ChronometricCurve:
    """Return the mean decision or reaction time at each coherence, for each member.

    The unit of replication is the trial: the errors are within a member.

    **Arguments:**

    - `coherence`: of each trial, signed.
    - `times`: in s, from `decision_time` or `reaction_time`; NaN where there was no decision.
    """
    signed = finite_float64("coherence", coherence, "trial")
    decision_times = as_float64("times", times, f"... trial={signed.size}")
    levels = np.unique(signed)
    columns = [_column(decision_times[..., signed == level]) for level in levels]
    mean, error, decided = (np.stack([column[i] for column in columns], axis=-1) for i in range(3))
    return ChronometricCurve(levels, mean, error, decided)


def _column(times: Float[np.ndarray, "*axes trial"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, its standard error and the share of decided trials."""
    decided = np.isfinite(times)
    count = decided.sum(axis=-1)
    mean = np.where(decided, times, 0.0).sum(axis=-1) / np.where(count > 0, count, np.nan)
    squares = np.where(decided, times - mean[..., None], 0.0) ** 2
    variance = squares.sum(axis=-1) / np.where(count > 1, count - 1, np.nan)
    error = np.sqrt(variance / np.where(count > 0, count, 1))
    # Without axes before that of the trials, NumPy returns numbers in place of arrays.
    return np.asarray(mean), np.asarray(error), np.asarray(count / times.shape[-1])
