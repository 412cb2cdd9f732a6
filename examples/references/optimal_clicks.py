"""The best time to stop listening to clicks on two sides, by dynamic programming. NumPy and SciPy; no popsim.

In each time step of dt seconds there are Poisson numbers of clicks on both sides, whose rates have the log
ratio γ and the same sum for all γ. Their numbers l and r so far are all that one can know: the odds of γ are
s(γ)^r s(-γ)^l, with the logistic function s. From the last step backward, the value of waiting is that of the
next step, averaged over the clicks to come, minus the cost of time (Drugowitsch et al. 2012, J Neurosci
32:3612-3628, for the clicks of Brunton, Botvinick & Brody 2013, Science 340:95). Numbers of clicks on a side
above the mean of the highest rate plus six standard deviations are treated as one.
"""

import dataclasses

import numpy as np
from scipy.special import expit
from scipy.stats import poisson


@dataclasses.dataclass(frozen=True)
class Problem:
    """A decision about clicks.

    - `log_ratios`: the values of γ, which are equally probable and come in both signs.
    - `total_rate`: the rate of both sides together, in Hz.
    - `dt`, `n_steps`: the time step, in seconds, and how many there are.
    - `cost`: what a second of waiting costs.
    - `error_payoff`: what a wrong choice pays, or none; a right one pays 1.
    """

    log_ratios: tuple[float, ...]
    total_rate: float
    dt: float
    n_steps: int
    cost: float
    error_payoff: float


def solve(problem: Problem) -> tuple[float, np.ndarray]:
    """The expected payoff of the best player, and its bounds [step, clicks on both sides so far].

    It chooses the side with more clicks where their difference is at least the bound.
    """
    ratios = np.asarray(problem.log_ratios, float)
    error, cost = problem.error_payoff, problem.cost * problem.dt
    means = problem.dt * problem.total_rate * expit(ratios[:, None] * [-1.0, 1.0])
    most = means.max() * problem.n_steps
    counts = np.arange(int(np.ceil(most + 6 * most**0.5)) + 1)
    weights = posterior(counts, ratios)
    right = np.tensordot((np.sign(ratios) + 1) / 2, weights, 1)
    responding = error + (1 - error) * np.maximum(right, 1 - right)
    to_come = [[_arrivals(counts.size, mean) for mean in sides] for sides in means]
    waiting, bounds = np.full(right.shape, error - cost), []
    for _ in range(problem.n_steps):
        bounds.append(_bounds(responding >= waiting))
        value = np.maximum(responding, waiting)
        later = np.stack([left @ value @ right.T for left, right in to_come])
        waiting = np.sum(weights * later, axis=0) - cost
    # Nothing is waited for before the first clicks.
    return float(waiting[0, 0]) + cost, np.stack(bounds[::-1])


def posterior(counts: np.ndarray, log_ratios: np.ndarray) -> np.ndarray:
    """The probability of each log ratio [value, left, right], given the numbers of clicks on both sides."""
    log_right = -np.logaddexp(0, -log_ratios)[:, None, None] * counts
    log_left = -np.logaddexp(0, log_ratios)[:, None, None] * counts[:, None]
    odds = np.exp(log_left + log_right - (log_left + log_right).max(axis=0))
    return odds / odds.sum(axis=0)


def _arrivals(n_counts: int, mean: float) -> np.ndarray:
    """The probability of moving from each number of clicks to each, in one time step."""
    moves = poisson.pmf(np.arange(n_counts) - np.arange(n_counts)[:, None], mean)
    moves[:, -1] += 1 - moves.sum(axis=1)
    return moves


def _bounds(responds: np.ndarray) -> np.ndarray:
    """The smallest difference at which one responds, for each number of clicks on both sides."""
    right = np.arange(responds.shape[1])
    left = right[:, None]
    bounds = np.full(2 * right.size - 1, np.inf)
    np.minimum.at(bounds, (left + right)[responds], np.abs(right - left).astype(float)[responds])
    return bounds
