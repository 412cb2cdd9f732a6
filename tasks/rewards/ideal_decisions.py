"""The best players of decisions about noisy evidence."""

from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array
from popsim.tasks._known_tasks import check_known_task, values_of_choice
from popsim.tasks.rewards.players import AbstractPlayer, Received, choice_of
from popsim.tasks.rewards.timed_decisions import (
    AbstractReactionTimeDecision,
    PostDecisionWager,
    ReactionTimeDecision,
)
from popsim.tasks.rewards.timed_responses import STIMULUS_ON

__all__ = [
    "DecisionBounds",
    "OptimalDecisions",
    "WagerObserver",
    "optimal_decisions",
    "probability_of_right",
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

    def choose(
        self, received: Received, state: tuple[Array, Array], *, key: Key[Array, ""]
    ) -> tuple[Int[Array, ""], tuple[Array, Array]]:
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


def optimal_decisions(task: ReactionTimeDecision) -> OptimalDecisions[DecisionBounds]:
    """Compute the best player of a `ReactionTimeDecision` by dynamic programming.

    From the last time step backward, the value of waiting is that of the next step, averaged over the
    evidence to come, minus the cost of time (Drugowitsch et al. 2012, J Neurosci 32:3612, in discrete time).
    The accumulated evidence is on a grid that is at least 16 times finer than the noise of a time step.

    **Arguments:**

    - `task`: with as many positive as negative coherences, each a `Choice` of the same sizes, the same time
        before the stimulus in all trials, and noise that is not too small for a grid. A response before the
        stimulus must not pay more than the best player that waits for it.
    """
    check_known_task(task, ReactionTimeDecision, noise="noise")
    with jax.enable_x64(True):
        bounds, mean_reward = _bounds_and_reward(task)
    check_waiting_pays(task, mean_reward)
    return OptimalDecisions(DecisionBounds(bounds, dt=task.dt), mean_reward)


def _bounds_and_reward(task: ReactionTimeDecision) -> tuple[Float[np.ndarray, " step"], float]:
    values, n_steps = symmetric_values(task, "coherence"), n_steps_of_stimulus(task)
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


def symmetric_values(task: AbstractReactionTimeDecision, name: str) -> Float[np.ndarray, " value"]:
    """Return the values of a `Choice` of a task; raise `ValueError` unless both sides have the same."""
    values = np.asarray(values_of_choice(task, name), float)
    if not np.allclose(np.sort(values), np.sort(-values)):
        raise ValueError(f"`{name}` of `task` must be the same to both sides, got {values.tolist()}.")
    return values


def n_steps_of_stimulus(task: AbstractReactionTimeDecision) -> int:
    """Return the number of time steps of the stimulus; raise `ValueError` unless it is that of all trials."""
    low, high = (float(bound) for bound in task.fixation.bounds())
    if low != high:
        raise ValueError(
            f"`fixation` of `task` must be the same in all trials, got durations from {low:g} to {high:g} s."
        )
    timeline = task.plan.nominal()
    return timeline.n_steps - int(timeline.events[STIMULUS_ON])


def check_waiting_pays(task: AbstractReactionTimeDecision, mean_reward: float) -> None:
    """Raise `ValueError` if a response before the stimulus pays more than the best player that waits."""
    can_respond_early = int(task.plan.nominal().events[STIMULUS_ON]) > 0
    if can_respond_early and float(task.early_payoff) > mean_reward:
        raise ValueError(
            "`early_payoff` of `task` must be at most the mean reward of the best player that waits for the "
            f"stimulus, {mean_reward:.4g}, got {float(task.early_payoff):.4g}: to respond at once is best."
        )


def _grid(
    values: Float[np.ndarray, " value"], seconds: float, noise: float, std: float
) -> Float[np.ndarray, " evidence"]:
    """Return values of the accumulated evidence, which are close beside the noise of a time step, `std`."""
    largest = np.abs(values).max() * seconds
    widest = largest + 4 * noise * seconds**0.5
    n_each = max(FEWEST, int(np.ceil(PER_STD * widest / std)))
    if n_each > MOST:
        raise ValueError(
            f"`noise` of `task` must be at least about {PER_STD * largest / MOST * noise / std:.2g}, got "
            f"{noise:g}: the evidence is so clear that a grid which resolves the noise of a time step needs "
            f"{2 * n_each + 1} values."
        )
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

    task: PostDecisionWager
    reads = ("evidence", "fixation", "sure offer")

    def __check_init__(self):
        check_known_task(self.task, PostDecisionWager, noise="noise")
        values_of_choice(self.task, "coherence")

    def init(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return jnp.zeros(()), jnp.zeros(())

    def choose(
        self, received: Received, state: tuple[Array, Array], *, key: Key[Array, ""]
    ) -> tuple[Int[Array, ""], tuple[Array, Array]]:
        task, (evidence,) = self.task, received["evidence"]
        total = state[0] + task.dt * evidence
        seconds = state[1] + jnp.where(evidence != 0, task.dt, 0.0)  # noise is never zero
        right = probability_of_right(total, seconds, values_of_choice(task, "coherence"), task.noise)
        side = LEFT + choice_of(right - 0.5, key=key)
        is_unsure = jnp.maximum(right, 1 - right) < task.sure_payoff
        action = jnp.where(is_unsure & (received["sure offer"][0] > 0), SURE, side)
        return jnp.where(received["fixation"][0] > 0, WAIT, action), (total, seconds)
