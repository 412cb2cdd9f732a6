"""The best players of timed decisions about noisy evidence, and about clicks."""

from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import as_float_array, check_positive
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks._fields import Drawn, Scalar
from popsim.tasks.choices.pulses import N_COUNTS, AbstractClicks
from popsim.tasks.rewards import timed_responses as timed
from popsim.tasks.rewards.players import AbstractPlayer, Received, choice_of
from popsim.tasks.trial_parts import sign_or_coin, values_of_choice
from popsim.trial import Trial
from popsim.windows import Timeline

__all__ = [
    "DecisionBounds",
    "OptimalDecisions",
    "WagerObserver",
    "optimal_decisions",
    "probability_of_right",
    "ClickBounds",
    "ReactionTimeClicks",
    "optimal_clicks",
]


PlayerType = TypeVar("PlayerType", bound=AbstractPlayer)

WAIT, LEFT, SURE = 0, 1, 3
FEWEST, MOST, PER_STD = 300, 100_000, 16
"""The values of the accumulated evidence on either side of zero that the dynamic programme distinguishes: at
least and at most, and within a standard deviation of the evidence of one time step."""


def probability_of_right(
    evidence: Float[Array, "*axes"],
    seconds: Float[Array, "*axes"],
    coherences: Float[Array, " value"],
    noise: Float[Array, ""],
) -> Float[Array, "*axes"]:
    """Return the probability that the coherence is positive, given the evidence of a stimulus.

    The accumulated evidence x, the sum of the evidence times dt, is all that one can know. After s seconds it
    is normal with mean c s and variance σ² s, so that the odds of the coherence c are exp((c x - c² s / 2) /
    σ²). A coherence of zero is right by a coin flip.

    **Arguments:**

    - `evidence`: x.
    - `seconds`: s.
    - `coherences`: the values of c, which are equally probable.
    - `noise`: σ, in s^0.5.
    """
    weights = _weights(evidence, seconds, coherences, noise)
    return jnp.sum(weights * (jnp.sign(coherences) + 1) / 2, axis=-1)


def _weights(
    evidence: Float[Array, "*axes"],
    seconds: Float[Array, "*axes"],
    coherences: Float[Array, " value"],
    noise: Float[Array, ""],
) -> Float[Array, "*axes value"]:
    log_odds = coherences * evidence[..., None] - coherences**2 * seconds[..., None] / 2
    return jax.nn.softmax(log_odds / noise**2, axis=-1)


class DecisionBounds(AbstractPlayer):
    """Accumulates the evidence of a `ReactionTimeDecision`, and responds when it reaches a bound.

    **Arguments:**

    - `bounds`: the bound of the accumulated evidence, in s, at each time step of the stimulus; infinite for
        no response.
    - `dt`: the time step, in seconds.
    """

    bounds: Float[Array, " step"] = eqx.field(converter=as_float_array)
    dt: Float[Array, ""] = eqx.field(converter=as_float_array, kw_only=True)
    reads = ("evidence",)

    def init(self) -> tuple[Float[Array, ""], Int[Array, ""]]:
        return jnp.zeros(()), jnp.array(0)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        total, n_seen = state
        (evidence,) = received["evidence"]
        total = total + self.dt * evidence
        n_seen = jnp.where(evidence != 0, n_seen + 1, n_seen)  # noise is never zero
        is_now = jnp.arange(self.bounds.shape[0]) == n_seen - 1
        bound = jnp.sum(jnp.where(is_now, self.bounds, 0.0))
        responds = (n_seen > 0) & (jnp.abs(total) >= bound)
        side = LEFT + choice_of(total, key=key)
        return jnp.where(responds, side, WAIT), (total, n_seen)


class OptimalDecisions(eqx.Module, Generic[PlayerType]):
    """The best player, made by `optimal_decisions` or `optimal_clicks`.

    - `player`: it responds at the best bounds.
    - `mean_reward`: its mean reward in a trial.
    """

    player: PlayerType
    mean_reward: float = eqx.field(static=True)


def optimal_decisions(task: timed.ReactionTimeDecision) -> OptimalDecisions[DecisionBounds]:
    """Compute the best player of a `ReactionTimeDecision` by dynamic programming.

    From the last time step backward, the value of waiting is that of the next step, averaged over the
    evidence to come, minus the cost of time (Drugowitsch et al. 2012, J Neurosci 32:3612, in discrete time).
    The accumulated evidence is on a grid that is at least 16 times finer than the noise of a time step.

    **Arguments:**

    - `task`: with as many positive as negative coherences, each a `Choice` of the same sizes, the same time
        before the stimulus in all trials, and noise that is not too small for a grid. A response before the
        stimulus must not pay more than the best player that waits for it.
    """
    check_positive("task.noise", task.noise)
    with jax.enable_x64(True):
        bounds, mean_reward = _bounds_and_reward(task)
    check_waiting_pays(task, mean_reward)
    return OptimalDecisions(DecisionBounds(bounds, dt=task.dt), mean_reward)


def _bounds_and_reward(task: timed.ReactionTimeDecision) -> tuple[Float[np.ndarray, " step"], float]:
    values, n_steps = known_stimulus(task, "coherence")
    noise, dt, error = float(task.noise), task.dt, float(task.error_payoff)
    cost = float(task.waiting_cost) * dt
    grid = _grid(values, n_steps * dt, noise, noise * dt**0.5)
    kernels = [_kernel(grid[1] - grid[0], value * dt, noise * dt**0.5) for value in values]
    waiting, bounds = np.full(grid.size, error - cost), []
    for n_seen in range(n_steps, 0, -1):
        known = (jnp.asarray(values), jnp.asarray(noise))
        seconds = jnp.full(grid.size, n_seen * dt)
        right = np.asarray(probability_of_right(jnp.asarray(grid), seconds, *known))
        responding = error + (1 - error) * np.maximum(right, 1 - right)
        responds = (responding >= waiting) & (grid >= 0)
        bounds.append(grid[responds].min() if responds.any() else np.inf)
        value = np.maximum(responding, waiting)
        # Of the step before, from its evidence.
        weights = np.asarray(_weights(jnp.asarray(grid), seconds - dt, *known))
        to_come = np.stack([_mean_after(value, kernel) for kernel in kernels], axis=-1)
        waiting = np.sum(weights * to_come, axis=-1) - cost
    at_start = float(waiting[grid.size // 2]) + cost  # nothing is waited for before the first evidence
    return np.asarray(bounds[::-1]), at_start


def known_stimulus(
    task: timed.AbstractReactionTimeDecision, name: str
) -> tuple[Float[np.ndarray, " value"], int]:
    """Return the values of a `Choice`, and the number of time steps of the stimulus."""
    values = np.asarray(values_of_choice(task, name), float)
    if not np.allclose(np.sort(values), np.sort(-values)):
        raise ValueError(f"`{name}` of `task` must be the same to both sides, got {values.tolist()}.")
    low, high = (float(bound) for bound in task.fixation.bounds())
    if low != high:
        raise ValueError(f"`fixation` of `task` must be the same in all trials, got {low:g} to {high:g} s.")
    timeline = task.plan.nominal()
    return values, timeline.n_steps - int(timeline.events[timed.STIMULUS_ON])


def check_waiting_pays(task: timed.AbstractReactionTimeDecision, mean_reward: float) -> None:
    """Raise `ValueError` if a response before the stimulus pays more than the best player that waits."""
    can_respond_early = int(task.plan.nominal().events[timed.STIMULUS_ON]) > 0
    if can_respond_early and float(task.early_payoff) > mean_reward:
        raise ValueError(
            f"`early_payoff` of `task` must be at most what the best player is paid that waits, "
            f"{mean_reward:.4g}, got {float(task.early_payoff):.4g}."
        )


def _grid(
    values: Float[np.ndarray, " value"], seconds: float, noise: float, std: float
) -> Float[np.ndarray, " evidence"]:
    """Return values of the accumulated evidence, which are close beside the noise of a time step, `std`."""
    largest = np.abs(values).max() * seconds
    widest = largest + 4 * noise * seconds**0.5
    n_each = max(FEWEST, int(np.ceil(PER_STD * widest / std)))
    if n_each > MOST:
        least = PER_STD * largest / MOST * noise / std
        raise ValueError(f"`noise` of `task` must be at least about {least:.2g}, for a grid, got {noise:g}.")
    return np.linspace(-widest, widest, 2 * n_each + 1)


def _kernel(spacing: float, mean: float, std: float) -> Float[np.ndarray, " move"]:
    """Return the probability of each move on the grid, by a normal increment."""
    farthest = int(np.ceil((abs(mean) + 8 * std) / spacing))
    density = np.exp(-(((spacing * np.arange(-farthest, farthest + 1) - mean) / std) ** 2) / 2)
    return density / density.sum()


def _mean_after(
    value: Float[np.ndarray, " evidence"], kernel: Float[np.ndarray, " move"]
) -> Float[np.ndarray, " evidence"]:
    """Return the mean value after a move from each value of the grid; beyond its ends it is that there."""
    from scipy.signal import fftconvolve

    beyond = np.pad(value, kernel.size // 2, mode="edge")
    return fftconvolve(beyond, kernel[::-1], mode="valid")


class WagerObserver(AbstractPlayer):
    """Knows how probable its choice is in a `PostDecisionWager`, and takes the sure reward if it pays more.

    It is the best of the players that wait for the go cue.

    **Arguments:**

    - `task`: the `PostDecisionWager`, with noise, whose coherence is a `Choice`.
    """

    task: timed.PostDecisionWager
    reads = ("evidence", "fixation", "sure offer")

    def __check_init__(self):
        check_positive("task.noise", self.task.noise)
        values_of_choice(self.task, "coherence")

    def init(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return jnp.zeros(()), jnp.zeros(())

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        task, (evidence,) = self.task, received["evidence"]
        total = state[0] + task.dt * evidence
        seconds = state[1] + jnp.where(evidence != 0, task.dt, 0.0)  # noise is never zero
        right = probability_of_right(total, seconds, values_of_choice(task, "coherence"), task.noise)
        side = LEFT + choice_of(right - 0.5, key=key)
        is_unsure = jnp.maximum(right, 1 - right) < task.sure_payoff
        action = jnp.where(is_unsure & (received["sure offer"][0] > 0), SURE, side)
        return jnp.where(received["fixation"][0] > 0, WAIT, action), (total, seconds)


MOST_COUNTS = 1000
"""How many numbers of clicks on a side `optimal_clicks` distinguishes at most."""


class ReactionTimeClicks(timed.AbstractReactionTimeDecision, AbstractClicks):
    """Clicks by reaction time: listen for as long as it pays, then report the side with the higher rate.

    The clicks are those of `PoissonClicks`, of Brunton, Botvinick & Brody 2013, Science 340:95, and the
    response is that of `ReactionTimeDecision`: at any time after the clicks have begun it ends the trial, and
    time costs. Here the side with the higher rate is correct, even if it had fewer clicks. The environment is
    a `ResponseEnvironment`.

    - Inputs: "fixation" (1), 1 until "stimulus on"; "stimulus" (2: left, right), from then on the number of
        clicks in each time step, which are Poisson processes.
    - Actions: wait, left, right. Targets: none.
    - Epochs "fixation", "stimulus"; event "stimulus on".
    - Conditions: "log ratio", "choice" (0 or 1, the correct one).

    `popsim.tasks.optimal_clicks` computes the best player and its mean reward.
    """

    fixation: Drawn = fields.drawn("the time before the clicks, in seconds", default=0.1)
    waiting_cost: Scalar = fields.non_negative(
        "what a second of the clicks costs, as against 1 for a correct choice", default=0.2
    )
    early_payoff: Scalar = fields.number("what a response before the clicks pays", default=-0.1)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (log_ratio,) = draws
        shown = timeline.since(timed.STIMULUS_ON)[:, None]
        clicks = self.clicks(log_ratio, timeline.n_steps, key=key)
        inputs = {"fixation": (~shown).astype(float), "stimulus": jnp.where(shown, clicks, 0.0)}
        choice = sign_or_coin(log_ratio, key=key_stream(key, "coin"))
        labels = {"log ratio": log_ratio, "choice": choice}
        return self.timed(
            timeline, timed.payoffs_of(choice, self.error_payoff), inputs, labels, opens=timed.STIMULUS_ON
        )


class ClickBounds(AbstractPlayer):
    """Counts the clicks of a `ReactionTimeClicks`, and responds when their difference reaches a bound.

    **Arguments:**

    - `bounds`: the bound of the difference between the two sides, at each time step of the clicks, for each
        number of clicks on both sides so far; infinite for no response.
    """

    bounds: Float[Array, "step clicks"] = eqx.field(converter=as_float_array)
    reads = ("fixation", "stimulus")

    def init(self) -> tuple[Float[Array, "2"], Int[Array, ""]]:
        return jnp.zeros(2), jnp.array(0)

    def choose(self, received: Received, state: Any, *, key: Key[Array, ""]) -> tuple[Int[Array, ""], Any]:
        counts, n_heard = state
        counts = counts + received["stimulus"]
        n_heard = jnp.where(received["fixation"][0] == 0, n_heard + 1, n_heard)
        difference = counts[1] - counts[0]
        n_clicks = jnp.minimum(jnp.sum(counts).astype(int), self.bounds.shape[1] - 1)
        responds = (n_heard > 0) & (jnp.abs(difference) >= self.bounds[n_heard - 1, n_clicks])
        return jnp.where(responds, LEFT + choice_of(difference, key=key), WAIT), (counts, n_heard)


def optimal_clicks(task: ReactionTimeClicks) -> OptimalDecisions[ClickBounds]:
    """Compute the best player of a `ReactionTimeClicks` by dynamic programming.

    The numbers of clicks on the two sides, l and r, are all that one can know: the odds of the log ratio γ
    are s(γ)^r s(-γ)^l, with the logistic function s, since the total rate does not depend on γ. From the last
    time step backward, the value of waiting is that of the next step, averaged over the clicks to come, minus
    the cost of time, as in `optimal_decisions`. Numbers of clicks on a side above the mean of the highest
    rate plus six standard deviations are treated as one.

    **Arguments:**

    - `task`: whose log ratio is a `Choice` of the same sizes to both sides, with the same time before the
        clicks in all trials, and a mean number of clicks on a side that is, with six standard deviations,
        below 1,000. A response before the clicks must not pay more than the best player that waits for them.
    """
    from scipy.special import expit

    log_ratios, n_steps = known_stimulus(task, "log_ratio")
    error, cost = float(task.error_payoff), float(task.waiting_cost) * task.dt
    means = task.dt * float(task.total_rate) * expit(log_ratios[:, None] * [-1.0, 1.0])
    most = means.max() * n_steps
    counts = np.arange(int(np.ceil(most + 6 * most**0.5)) + 1)
    if counts.size > MOST_COUNTS:
        raise ValueError(
            f"`task` must have fewer clicks than {MOST_COUNTS} on a side, got {counts.size - 1}."
        )
    weights = _posterior(counts, log_ratios)
    right = np.tensordot((np.sign(log_ratios) + 1) / 2, weights, 1)
    responding = error + (1 - error) * np.maximum(right, 1 - right)
    to_come = [[_arrivals(counts.size, mean) for mean in sides] for sides in means]
    waiting, bounds = np.full(right.shape, error - cost), []
    for _ in range(n_steps):
        bounds.append(_bounds(responding >= waiting))
        value = np.maximum(responding, waiting)  # in the step before, of the clicks to come
        later = np.stack([left @ value @ right.T for left, right in to_come])
        waiting = np.sum(weights * later, axis=0) - cost
    mean_reward = float(waiting[0, 0]) + cost  # nothing is waited for before the first clicks
    check_waiting_pays(task, mean_reward)
    return OptimalDecisions(ClickBounds(np.stack(bounds[::-1])), mean_reward)


def _posterior(
    counts: Int[np.ndarray, " count"], log_ratios: Float[np.ndarray, " value"]
) -> Float[np.ndarray, "value count count"]:
    """Return the probabilities of the log ratios, given the numbers of clicks on the left and the right."""
    log_right = -np.logaddexp(0, -log_ratios)[:, None, None] * counts
    log_left = -np.logaddexp(0, log_ratios)[:, None, None] * counts[:, None]
    log_odds = log_left + log_right
    odds = np.exp(log_odds - log_odds.max(axis=0))
    return odds / odds.sum(axis=0)


def _arrivals(n_counts: int, mean: float) -> Float[np.ndarray, "count count"]:
    """Return the probability of moving from each number of clicks to each, in one time step."""
    from scipy.stats import poisson

    more = np.arange(n_counts) - np.arange(n_counts)[:, None]
    moves = np.where(more < N_COUNTS, poisson.pmf(more, mean), 0.0)
    moves[:, -1] += 1 - moves.sum(axis=1)
    return moves


def _bounds(responds: np.ndarray) -> Float[np.ndarray, " clicks"]:
    """Return the smallest difference at which one responds, for each number of clicks on both sides."""
    right = np.arange(responds.shape[1])
    left = right[:, None]
    bounds = np.full(2 * right.size - 1, np.inf)
    np.minimum.at(bounds, (left + right)[responds], np.abs(right - left).astype(float)[responds])
    return bounds
