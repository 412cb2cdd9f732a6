"""Decisions by reaction time about the rates of clicks on two sides, and their best player."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array
from popsim.distributions import AbstractDistribution, as_distribution
from popsim.randomness import key_stream
from popsim.tasks._known_tasks import check_known_task
from popsim.tasks.choices.pulses import N_COUNTS, check_click_rate, click_log_ratios, click_rates, draw_clicks
from popsim.tasks.rewards.ideal_decisions import (
    LEFT,
    WAIT,
    OptimalDecisions,
    check_waiting_pays,
    n_steps_of_stimulus,
    symmetric_values,
)
from popsim.tasks.rewards.players import AbstractPlayer, Received, choice_of
from popsim.tasks.rewards.timed_decisions import AbstractReactionTimeDecision
from popsim.tasks.rewards.timed_responses import STIMULUS_ON, payoffs_of
from popsim.tasks.trial_parts import check_drawn, nominal_values, sign_or_coin
from popsim.trial import Trial
from popsim.windows import Timeline

__all__ = ["ClickBounds", "ReactionTimeClicks", "optimal_clicks"]

MOST_COUNTS = 1000
"""How many numbers of clicks on a side `optimal_clicks` distinguishes at most."""


class ReactionTimeClicks(AbstractReactionTimeDecision):
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

    **Arguments:**

    - `log_ratio`: the distribution of γ = log(right rate / left rate). At zero the correct choice is random.
    - `total_rate`: of both sides, in Hz.
    - `fixation`: the time before the clicks, in seconds; a number or a distribution.
    - `waiting_cost`: what a second of the clicks costs, in units of the reward for a correct choice.
    - `early_payoff`: what a response before the clicks pays.
    - `error_payoff`: what a wrong choice, or none, pays, at most 1; a correct one pays 1.
    - `duration`, `dt`: the longest duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    log_ratio: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=click_log_ratios
    )
    total_rate: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=40.0)

    def __check_init__(self):
        check_drawn("log_ratio", self.log_ratio, lambda name, bound: None)  # its shape
        check_click_rate("total_rate", self.total_rate, self.dt)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        return (self.log_ratio.sample(key=key_stream(key, "log ratio")),)

    def nominal(self) -> tuple[Array, ...]:
        return (nominal_values(self.log_ratio),)

    def trial_of(self, timeline: Timeline, *conditions: Array, key: Key[Array, ""]) -> Trial:
        (log_ratio,) = conditions
        shown = timeline.since(STIMULUS_ON)[:, None]
        means = self.dt * click_rates(log_ratio, self.total_rate)
        clicks = draw_clicks(means, timeline.n_steps, key=key_stream(key, "clicks"))
        inputs = {"fixation": (~shown).astype(float), "stimulus": jnp.where(shown, clicks, 0.0)}
        choice = sign_or_coin(log_ratio, key=key_stream(key, "coin"))
        labels = {"log ratio": log_ratio, "choice": choice}
        return self.timed(timeline, payoffs_of(choice, self.error_payoff), inputs, labels, opens=STIMULUS_ON)


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

    def choose(
        self, received: Received, state: tuple[Array, Array], *, key: Key[Array, ""]
    ) -> tuple[Int[Array, ""], tuple[Array, Array]]:
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

    check_known_task(task, ReactionTimeClicks)
    log_ratios, n_steps = symmetric_values(task, "log_ratio"), n_steps_of_stimulus(task)
    error, cost = float(task.error_payoff), float(task.waiting_cost) * task.dt
    means = task.dt * float(task.total_rate) * expit(log_ratios[:, None] * [-1.0, 1.0])
    most = means.max() * n_steps
    counts = np.arange(int(np.ceil(most + 6 * most**0.5)) + 1)
    if counts.size > MOST_COUNTS:
        raise ValueError(
            "`task` must have a mean number of clicks on a side that is, with six standard deviations, below "
            f"{MOST_COUNTS}, as all pairs of numbers are visited, got {counts.size - 1}: take a shorter "
            "`duration` or a lower `total_rate`."
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
