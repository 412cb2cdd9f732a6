"""Choices, decision and reaction times, how accuracy depends on them, and produced intervals."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Real, Shaped

from popsim._shared.checks import check_positive, check_time_step, kind_of
from popsim.analysis._arrays import AnyArray, TimeCourses, as_float64, check_axes, finite_float64
from popsim.analysis.trial_times import trial_time_axes
from popsim.hand import HandState
from popsim.interaction import Interaction
from popsim.trial import Trial

__all__ = [
    "ChoiceFractions",
    "choice_fractions",
    "normalized_likelihood",
    "produced_interval",
    "ChronometricCurve",
    "decision_time",
    "chronometric_curve",
    "Responses",
    "environment_responses",
    "threshold_responses",
    "ChronometricCurvesByOutcome",
    "chronometric_curves_by_outcome",
    "ReactionTimeQuantiles",
    "reaction_time_quantiles",
    "ConditionalAccuracy",
    "conditional_accuracy",
]


class ChoiceFractions(NamedTuple):
    """The share of trials with a given choice at each coherence.

    - `coherence`: the distinct coherences, ascending.
    - `fraction`: the share of the trials of that coherence, from 0 to 1.
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
    return ChoiceFractions(levels, _sums_of_levels(choices, level_index, levels.size) / counts, counts)


def _sums_of_levels(
    values: Shaped[np.ndarray, "*axes trial"], level_index: Int[np.ndarray, " trial"], n_levels: int
) -> Float[np.ndarray, "*axes level"]:
    sums = np.zeros((n_levels, *values.shape[:-1]))
    np.add.at(sums, level_index, np.moveaxis(values, -1, 0))
    return np.moveaxis(sums, 0, -1)


def normalized_likelihood(
    losses: Float[AnyArray, "*axes session"], counts: Real[AnyArray, "*axes session"]
) -> Float[np.ndarray, "*axes"]:
    """Return the geometric mean probability of recorded choices, exp(-Σ_s n_s L_s / Σ_s n_s).

    It is 1 over the number of choices at chance, and 1 if all were certain (Ito & Doya 2009, J Neurosci
    29:9861).

    **Arguments:**

    - `losses`: L, the mean negative log-likelihood per choice in each session, in nats, as of
        `tasks.StoredChoices` with `normalise="trial"`, the default.
    - `counts`: n, how many choices of each session count.
    """
    costs, n_choices = finite_float64("losses", losses), finite_float64("counts", counts)
    check_positive("counts", n_choices.sum(axis=-1))
    return np.asarray(np.exp(-np.sum(costs * n_choices, axis=-1) / n_choices.sum(axis=-1)))


def produced_interval(
    output: Float[Array, "*trial time"], start: Int[Array, "*trial"], *, dt: float, threshold: float = 1.0
) -> Float[Array, "*trial"]:
    """Return the time from a step, such as that of "set", until the output reaches a threshold, in s.

    Time is counted from row `start`, at the end of that step, and interpolated linearly. Zero if that row is
    already at or above the threshold, infinite if none is.
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

    Row t is at time (t + 1) dt: the result is `produced_interval` of |output| plus dt.

    **Arguments:**

    - `output`: positive for one choice and negative for the other.
    - `start`: the step from whose beginning time is counted, such as
        `trials.timeline.epochs["stimulus"][:, 0]`.
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
    """Return the mean decision or reaction time at each coherence; errors are over trials of a member.

    **Arguments:**

    - `coherence`: of each trial, signed.
    - `times`: in s, from `decision_time` or `reaction_time`; NaN where there was no decision.
    """
    signed = finite_float64("coherence", coherence, "trial")
    decision_times = as_float64("times", times, f"... trial={signed.size}")
    levels, index, n_trials = np.unique(signed, return_inverse=True, return_counts=True)

    def summed(values: np.ndarray) -> np.ndarray:
        return _sums_of_levels(values, index, levels.size)

    decided = np.isfinite(decision_times)
    count = summed(decided)
    mean = summed(np.where(decided, decision_times, 0.0)) / np.where(count > 0, count, np.nan)
    squares = summed(np.where(decided, decision_times - mean[..., index], 0.0) ** 2)
    variance = squares / np.where(count > 1, count - 1, np.nan)
    error = np.sqrt(variance / np.where(count > 0, count, 1))
    return ChronometricCurve(levels, mean, error, count / n_trials)


class Responses(NamedTuple):
    """The response of each trial.

    - `time`: from the event to the response, in s; NaN in trials without a response.
    - `choice`: which response it was, a whole number; NaN in trials without one, which equals no choice.
    """

    time: Float[np.ndarray, "*axes trial"]
    choice: Float[np.ndarray, "*axes trial"]


def environment_responses(
    interaction: Interaction, trials: Trial, event: str, *, wait_action: int = 0
) -> Responses:
    """Return the responses that ended the trials of an environment, with times relative to an event.

    The response is the action of the last active time step, unless that is `wait_action`. One in the time
    step of the event takes one time step. Times before the event are zero or negative; NaN in trials without
    it.

    **Arguments:**

    - `interaction`: `states.interaction` or the result of `popsim.tasks.play`, with discrete actions and axes
        such as (member, trial, time).

    **Returns:** the responses; `choice` is the action.
    """
    active, action = np.asarray(interaction.active, bool), interaction.action
    check_axes("interaction", active, f"... {trial_time_axes(trials)}")
    if isinstance(action, HandState) or not np.issubdtype(action.dtype, np.integer):
        raise ValueError(f"`interaction` must have discrete actions, got {kind_of(action)}.")
    n_active = active.sum(axis=-1)
    last = np.maximum(n_active - 1, 0)
    choice = np.take_along_axis(np.asarray(action), last[..., None], axis=-1)[..., 0]
    return _responses(last, choice, (n_active > 0) & (choice != wait_action), trials, event)


def threshold_responses(
    outputs: Float[AnyArray, "*axes trial time output"], trials: Trial, event: str, *, threshold: float
) -> Responses:
    """Return the responses of a network that responds once an output reaches a threshold after an event.

    The response is in the first time step, from that of the event on, in which an output is at or above the
    threshold; the largest one is the choice. Times are whole time steps; NaN in trials without the event.

    **Arguments:**

    - `outputs`: such as `states.network.output`, one output for each choice.

    **Returns:** the responses; `choice` is the index of the output.
    """
    values = finite_float64("outputs", outputs, f"... {trial_time_axes(trials)} output")
    timeline = trials.timeline
    comes = np.asarray(timeline.happens(event))
    is_after = np.arange(timeline.n_steps) >= np.asarray(timeline.events[event])[:, None]
    crosses = (values.max(axis=-1) >= threshold) & is_after
    first = np.argmax(crosses, axis=-1)
    at_crossing = np.take_along_axis(values, first[..., None, None], axis=-2)[..., 0, :]
    return _responses(first, np.argmax(at_crossing, axis=-1), crosses.any(axis=-1) & comes, trials, event)


def _responses(
    step: Int[np.ndarray, "*axes trial"],
    choice: Int[np.ndarray, "*axes trial"],
    responds: Bool[np.ndarray, "*axes trial"],
    trials: Trial,
    event: str,
) -> Responses:
    counts = responds & np.asarray(trials.timeline.happens(event))
    after = step + 1 - np.asarray(trials.timeline.events[event])
    return Responses(np.where(counts, trials.timeline.dt * after, np.nan), np.where(counts, choice, np.nan))


class ChronometricCurvesByOutcome(NamedTuple):
    """The mean reaction time in each condition, of correct and of wrong responses.

    - `correct`, `error`: the curves. Their `share_decided` is the fraction of all trials of the condition
        that had a correct and a wrong response.
    """

    correct: ChronometricCurve
    error: ChronometricCurve


def chronometric_curves_by_outcome(
    condition: Float[AnyArray, " trial"],
    times: Float[AnyArray, "*axes trial"],
    is_correct: Bool[AnyArray, "*axes trial"],
) -> ChronometricCurvesByOutcome:
    """Return the mean reaction time of correct and of wrong responses in each condition, for each member.

    The errors are over trials of a member.

    **Arguments:**

    - `condition`: of each trial, such as the absolute value of the coherence.
    - `times`: in s, such as `Responses.time`; NaN where there was no response.
    - `is_correct`: whether the response was correct; does not count where there was none.
    """
    levels = finite_float64("condition", condition, "trial")
    seconds, correct = _times_and_outcomes(times, is_correct, f"trial={levels.size}")
    return ChronometricCurvesByOutcome(
        chronometric_curve(levels, np.where(correct, seconds, np.nan)),
        chronometric_curve(levels, np.where(correct, np.nan, seconds)),
    )


class ReactionTimeQuantiles(NamedTuple):
    """The distribution of reaction times in each condition, of correct and of wrong responses.

    - `condition`: the distinct conditions, ascending.
    - `correct`, `error`: the quantiles, in s; NaN without such responses.
    - `share_correct`: the fraction of the responses that are correct; NaN without responses.
    """

    condition: Float[np.ndarray, " level"]
    probabilities: Float[np.ndarray, " quantile"]
    correct: Float[np.ndarray, "*axes level quantile"]
    error: Float[np.ndarray, "*axes level quantile"]
    share_correct: Float[np.ndarray, "*axes level"]


def reaction_time_quantiles(
    condition: Float[AnyArray, " trial"],
    times: Float[AnyArray, "*axes trial"],
    is_correct: Bool[AnyArray, "*axes trial"],
    *,
    probabilities: Sequence[float] = (0.1, 0.3, 0.5, 0.7, 0.9),
) -> ReactionTimeQuantiles:
    """Return quantiles of the reaction times of correct and of wrong responses in each condition.

    Drawn against `share_correct`, and those of errors against 1 minus it, they are the quantile probability
    functions of Ratcliff & McKoon 2008, Neural Comput 20:873, who use the same probabilities.

    **Arguments:**

    - `condition`, `times`, `is_correct`: as for `chronometric_curves_by_outcome`.
    """
    conditions, shares = finite_float64("condition", condition, "trial"), np.asarray(probabilities, float)
    seconds, correct = _times_and_outcomes(times, is_correct, f"trial={conditions.size}")
    levels, index = np.unique(conditions, return_inverse=True)

    def by_level(counts: Bool[np.ndarray, "*axes trial"]) -> Float[np.ndarray, "*axes level quantile"]:
        counted = np.where(counts, seconds, np.nan)
        return np.stack([_quantiles(counted[..., conditions == level], shares) for level in levels], axis=-2)

    responds = np.isfinite(seconds)
    n_responses = _sums_of_levels(responds, index, levels.size)
    n_correct = _sums_of_levels(responds & correct, index, levels.size)
    share_correct = n_correct / np.where(n_responses > 0, n_responses, np.nan)
    return ReactionTimeQuantiles(levels, shares, by_level(correct), by_level(~correct), share_correct)


class ConditionalAccuracy(NamedTuple):
    """The accuracy of fast to slow responses.

    - `time`: the mean reaction time of each bin, in s; NaN without responses.
    - `accuracy`: the fraction of its responses that are correct; NaN without responses.
    - `standard_error`: of the accuracy p of n responses, (p (1 - p) / n)^0.5.
    """

    time: Float[np.ndarray, "*axes bin"]
    accuracy: Float[np.ndarray, "*axes bin"]
    standard_error: Float[np.ndarray, "*axes bin"]
    n_trials: Int[np.ndarray, "*axes bin"]


def conditional_accuracy(
    times: Float[AnyArray, "*axes trial"], is_correct: Bool[AnyArray, "*axes trial"], *, n_bins: int = 5
) -> ConditionalAccuracy:
    """Return the conditional accuracy function: the accuracy of responses by their reaction time.

    The bins of each member lie between quantiles of its reaction times (Heitz 2014, Front Neurosci 8:150).
    Responses of equal time are in one bin: with few distinct times, bins differ in number or are empty.

    **Arguments:**

    - `times`, `is_correct`: as for `chronometric_curves_by_outcome`.
    """
    seconds, correct = _times_and_outcomes(times, is_correct)
    edges = _quantiles(seconds, np.arange(1, n_bins) / n_bins)
    bin_index = np.sum(seconds[..., None] > edges[..., None, :], axis=-1)
    in_bin = np.isfinite(seconds)[..., None] & (bin_index[..., None] == np.arange(n_bins))
    count = in_bin.sum(axis=-2)
    divisor = np.where(count > 0, count, np.nan)
    time = np.where(in_bin, seconds[..., None], 0.0).sum(axis=-2) / divisor
    accuracy = np.sum(in_bin & correct[..., None], axis=-2) / divisor
    return ConditionalAccuracy(time, accuracy, np.sqrt(accuracy * (1 - accuracy) / divisor), count)


def _times_and_outcomes(
    times: AnyArray, is_correct: AnyArray, trial_axis: str = "trial"
) -> tuple[Float[np.ndarray, "*axes trial"], Bool[np.ndarray, "*axes trial"]]:
    seconds, correct = as_float64("times", times, f"... {trial_axis}"), np.asarray(is_correct)
    if correct.dtype != bool or correct.shape != seconds.shape:
        raise ValueError(
            f"`is_correct` must be True or False for each of `times`, shape {seconds.shape}, "
            f"got {correct.dtype} of shape {correct.shape}."
        )
    return seconds, correct


def _quantiles(
    times: Float[np.ndarray, "*axes trial"], probabilities: Float[np.ndarray, " quantile"]
) -> Float[np.ndarray, "*axes quantile"]:
    finite = np.where(np.isfinite(times), times, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of members without a response
        return np.moveaxis(np.nanquantile(finite, probabilities, axis=-1), 0, -1)
