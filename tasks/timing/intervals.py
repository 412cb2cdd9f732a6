"""Intervals that are compared, and the best estimates of intervals that were shown with noise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import check_positive, kind_of, n_steps_in, short_repr
from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform, as_distribution
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import Drawn, Number, Scalar
from popsim.tasks.choices.decisions import AbstractGoTask
from popsim.tasks.timing.interval_production import OneTwoThreeGo, probability_of_steps, table_of_steps
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = [
    "IntervalDiscrimination",
    "accuracy_from_one_interval",
    "bayes_least_squares",
    "estimate_interval",
    "interval_error",
    "longer_stimulus",
]


class IntervalDiscrimination(AbstractGoTask):
    """Two stimuli in sequence, one red and one blue: after the go cue, report which lasted longer.

    The task of Genovesio, Tsujimoto & Wise 2009, Neuron 63:254 (compared with the abstract only), with the
    stimuli of NeuroGym's `IntervalDiscrimination` in shorter delays: there `delay=Uniform(0.8, 1.5)` and
    `wait=0.5`, and the first and the second stimulus have the two channels.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: red, blue), 1 while the stimulus is shown,
        plus white noise in both channels in the epochs of the stimuli.
    - Targets: two outputs, zero until the go cue, then 1 for the one that lasted longer: red, blue.
    - Epochs "fixation", "first", "delay", "second", "wait", "decision"; events "first on", "first off",
        "second on", "second off", "go cue".
    - Conditions: "first" and "second", their durations (s), "order" (0 red first, 1 blue first), "choice"
        (0 red, 1 blue), "catch".

    The two durations always differ. One who counts the time steps of both is right in all trials
    (`popsim.tasks.longer_stimulus`), and who measures only one of them as often as
    `popsim.tasks.accuracy_from_one_interval` says. The validation trials are all pairs in both orders.
    """

    durations: Float[Number, " duration"] = fields.positive(
        "two or more different durations of stimuli, in seconds", default=(0.3, 0.4, 0.5, 0.6)
    )
    noise: Scalar = fields.white_noise("the stimulus", default=0.01)
    fixation: Drawn = fields.drawn("the time before the stimuli, in seconds", default=0.3)
    delay: Drawn = fields.drawn("the time between the stimuli, in seconds", default=(0.2, 0.6))
    wait: Drawn = fields.drawn("the time after the stimuli, in seconds", default=0.1)
    duration: float = fields.trial_duration(default=2.5)

    def __check_init__(self):
        if not parts.is_known(self.durations):
            return
        steps = {n_steps_in("durations", float(each), self.dt) for each in np.ravel(self.durations)}
        if self.durations.ndim != 1 or not 2 <= self.durations.size == len(steps):
            raise ValueError(
                f"`durations` must be two or more, all different, got {short_repr(self.durations)}."
            )

    def epochs(self) -> tuple[Epoch, ...]:
        longest = Constant(jnp.max(self.durations))
        return self._epochs(longest, longest)

    def _epochs(self, first: AbstractDistribution, second: AbstractDistribution) -> tuple[Epoch, ...]:
        return (
            Epoch("first", first, event="first on"),
            Epoch("delay", self.delay, event="first off"),
            Epoch("second", second, event="second on"),
            Epoch("wait", self.wait, event="second off"),
        )

    def plan_for(self, draws: tuple[Array, ...]) -> TrialPlan:
        return self.plan_with(*self._epochs(Constant(draws[0]), Constant(draws[1])))

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        n = self.durations.shape[0]
        index = jax.random.randint(key_stream(key, "first"), (), 0, n)
        further = jax.random.randint(key_stream(key, "second"), (), 1, n)
        order = jax.random.randint(key_stream(key, "order"), (), 0, 2)
        return self.durations[index], self.durations[(index + further) % n], order

    def nominal(self) -> tuple[Array, ...]:
        n = self.durations.shape[0]
        index, further, order = parts.all_combinations(n, n - 1, 2)
        return self.durations[index], self.durations[(index + further + 1) % n], order

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        first, second, order = draws
        is_first, is_second = timeline.in_epoch("first"), timeline.in_epoch("second")
        colour = jnp.where(is_first, order, 1 - order)
        choice = jnp.where(first > second, order, 1 - order)
        conditions = {"first": first, "second": second, "order": order}
        stimulus, shown = jax.nn.one_hot(colour, 2), is_first | is_second
        return self.go_trial(timeline, stimulus, choice, conditions, shown=shown, key=key)


def longer_stimulus(stimulus: Float[Array, "*axes time 2"]) -> Int[Array, "*axes"]:
    """Return which of two stimuli was shown for longer: 0 or 1.

    It counts the time steps in which each channel is above one half, as an ideal observer of an
    `IntervalDiscrimination` does while its noise is far below one half.
    """
    counts = jnp.sum(stimulus > 0.5, axis=-2)
    return (counts[..., 1] > counts[..., 0]).astype(int)


def accuracy_from_one_interval(n_durations: int) -> float:
    """Return how often one is right who measures one of the two intervals, and guesses about the other.

    Of n equally frequent durations, i are shorter than a duration and n - 1 - i are longer. It is the mean of
    max(i, n - 1 - i) / (n - 1): an `IntervalDiscrimination` is learned only above it.
    """
    shorter = np.arange(n_durations)
    return float(np.mean(np.maximum(shorter, n_durations - 1 - shorter)) / (n_durations - 1))


N_NODES, FARTHEST = 64, 8.0
"""Of the Gauss-Legendre quadrature over a uniform prior, as far as the measurement is likely, in standard
deviations."""


def bayes_least_squares(
    measured: Float[Array, "*axes"], prior: AbstractDistribution, weber_fraction: Any
) -> Float[Array, "*axes"]:
    """Return the mean of an interval given its measurement, which has the least squared error, in s.

    f(m) = ∫ p(t) t p(m|t) dt / ∫ p(t) p(m|t) dt, with m normal around t with the standard deviation w t:
    the Bayes least-squares estimator of Jazayeri & Shadlen 2010, Nat Neurosci 13:1020 (formula checked in
    public code that fits their observer to data, not in the paper). It regresses to the mean of the prior,
    the more so the longer the interval.

    **Arguments:**

    - `measured`: m, in s, such as the condition "measured" of a `ReadySetGo`.
    - `prior`: of t, such as `ReadySetGo.interval`: a `Uniform`, `Choice` or `Constant`.
    - `weber_fraction`: w.
    """
    check_positive("weber_fraction", weber_fraction)
    intervals, weights = _nodes(as_distribution(prior), measured[..., None], weber_fraction)
    std = weber_fraction * intervals
    log_likelihood = -jnp.log(std) - ((measured[..., None] - intervals) / std) ** 2 / 2
    return jnp.sum(jax.nn.softmax(jnp.log(weights) + log_likelihood, axis=-1) * intervals, axis=-1)


def _nodes(
    prior: AbstractDistribution, measured: Float[Array, "*axes 1"], weber_fraction: Any
) -> tuple[Float[Array, "*#axes node"], Float[Array, " node"]]:
    """Return values of the prior, in s, and their weights."""
    match prior:
        case Uniform():
            nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
            # Where noise is small, few nodes in the whole prior would be likely. A measurement far outside of
            # the prior leaves its nearest end, and the last standard deviations before that.
            away = FARTHEST * weber_fraction
            least = jnp.minimum(measured / (1 + away), prior.high * (1 - away))
            most = jnp.where(away < 1, measured / jnp.where(away < 1, 1 - away, 1.0), jnp.inf)
            low = jnp.clip(least, prior.low, prior.high)
            high = jnp.clip(jnp.maximum(most, prior.low * (1 + away)), prior.low, prior.high)
            middle, half = (low + high) / 2, (high - low) / 2
            return middle + half * jnp.asarray(nodes, half.dtype), jnp.asarray(weights, half.dtype)
        case Choice():
            return prior.values, jnp.ones_like(prior.values)
        case Constant():
            return prior.value[None], jnp.ones_like(prior.value[None])
    raise ValueError(f"`prior` must be a Uniform, Choice or Constant, got {kind_of(prior)}.")


def estimate_interval(task: OneTwoThreeGo, n_shown: Int[Array, "*axes 2"]) -> Float[Array, "*axes"]:
    """Return the mean of the interval of a `OneTwoThreeGo` given both shown ones, in s.

    The estimate with the least squared error, by Bayes' rule from the prior and the noise of both: that of
    Jazayeri & Shadlen 2010, Nat Neurosci 13:1020, for the two measurements of Egger & Jazayeri 2018, Sci Rep
    8:12597 (compared with the abstracts only).

    **Arguments:**

    - `task`: the task, whose interval is a `Choice`.
    - `n_shown`: the numbers of time steps from the first pulse to the second, and to the third.
    """
    values = parts.values_of_choice(task, "interval")
    likelihoods = probability_of_steps(n_shown[..., None], values, task.weber_fraction, task.dt)
    weights = jnp.prod(likelihoods, axis=-2)
    total = jnp.sum(weights, axis=-1)
    return jnp.sum(weights * values, axis=-1) / total


def interval_error(task: OneTwoThreeGo, *, n_intervals: int = 2) -> float:
    """Return the root mean squared error of the best estimate of the interval of a `OneTwoThreeGo`, in s.

    No estimate from the pulses has a smaller one.

    **Arguments:**

    - `task`: the task, whose interval is a `Choice`.
    - `n_intervals`: how many of the shown intervals are used: none, one or two.
    """
    if n_intervals not in (0, 1, 2):
        raise ValueError(f"`n_intervals` must be 0, 1 or 2, got {n_intervals!r}.")
    values = np.asarray(parts.values_of_choice(task, "interval"), float)
    single = table_of_steps(values, float(task.weber_fraction), task.dt)
    joint = np.ones((1, len(values))) / len(values)
    for _ in range(n_intervals):
        joint = (joint[:, None] * single[None]).reshape(-1, len(values))
    total = joint.sum(axis=1)
    mean = joint @ values / np.where(total > 0, total, 1.0)
    return float(np.sqrt(np.sum(joint * (values - mean[:, None]) ** 2)))
