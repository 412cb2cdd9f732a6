"""The best time to stop watching noisy evidence, by dynamic programming. Numpy alone; popsim is not used.

In each time step of dt seconds one sees the coherence c, which is the same throughout a trial, plus white
noise of standard deviation σ / dt^½. Then one waits, at a cost, or chooses a sign and is paid 1 or, where it
is wrong, less. In the last step one must choose. All that one can know after n steps is the accumulated
evidence x, the sum of what was seen times dt: the odds of c are exp((c x - c² n dt / 2) / σ²). With V_n(x)
the value of being there before one acts,

    V_n(x) = max(payoff of the more probable sign, -cost dt + E[V_{n+1}(x') | x]),

and V_N the first of these. For two coherences and no deadline this is the sequential probability ratio test
(Wald & Wolfowitz 1948, Ann Math Stat 19:326-339); the recursion for several is that of Drugowitsch et al.
2012, J Neurosci 32:3612-3628.
"""

import dataclasses

import numpy as np

N_GRID = 801


@dataclasses.dataclass(frozen=True)
class Problem:
    """A decision about evidence.

    - `coherences`: the values of c, which are equally probable and come in both signs.
    - `noise`: σ, in s^½.
    - `dt`, `n_steps`: the time step, in seconds, and how many there are.
    - `cost`: what a second of waiting costs.
    - `error_payoff`: what a wrong choice pays; a right one pays 1.
    """

    coherences: tuple[float, ...]
    noise: float
    dt: float
    n_steps: int
    cost: float
    error_payoff: float


@dataclasses.dataclass(frozen=True)
class Solution:
    """The best player.

    - `value`: its expected payoff.
    - `bounds`: for each step, from which size of the accumulated evidence it chooses [step].
    """

    value: float
    bounds: np.ndarray


def posterior(problem: Problem, x: np.ndarray, n_seen: int) -> np.ndarray:
    """The probability of each coherence [..., value], given the accumulated evidence of some steps."""
    c = np.array(problem.coherences)
    log_odds = (c * x[..., None] - c**2 * n_seen * problem.dt / 2) / problem.noise**2
    odds = np.exp(log_odds - log_odds.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def payoffs(problem: Problem, x: np.ndarray, n_seen: int) -> np.ndarray:
    """The expected payoff of choosing the more probable sign."""
    right = posterior(problem, x, n_seen) @ (np.array(problem.coherences) > 0)
    right = np.maximum(right, 1 - right)
    return right + (1 - right) * problem.error_payoff


def solve(problem: Problem) -> Solution:
    """The best player, by backward induction on a grid of the accumulated evidence."""
    spread = problem.noise * (problem.n_steps * problem.dt) ** 0.5
    widest = 5 * spread + max(problem.coherences) * problem.n_steps * problem.dt
    x = np.linspace(-widest, widest, N_GRID)
    steps = _transitions(problem, x, x)
    value, bounds = payoffs(problem, x, problem.n_steps), [0.0]
    for n_seen in range(problem.n_steps - 1, 0, -1):
        later = np.einsum("xc,cxy,y->x", posterior(problem, x, n_seen), steps, value)
        stop, wait = payoffs(problem, x, n_seen), later - problem.cost * problem.dt
        stops = (stop >= wait) & (x >= 0)
        bounds.append(x[stops].min() if stops.any() else np.inf)
        value = np.maximum(stop, wait)
    start = _transitions(problem, np.zeros(1), x)[:, 0].mean(axis=0)
    return Solution(float(start @ value), np.array(bounds[::-1]))


def _transitions(problem: Problem, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The probabilities [coherence, before, after] of the accumulated evidence after one more step."""
    drift = np.array(problem.coherences)[:, None, None] * problem.dt
    away = after - before[:, None] - drift
    density = np.exp(-(away**2) / (2 * problem.noise**2 * problem.dt))
    return density / density.sum(axis=-1, keepdims=True)


def play(problem: Problem, bounds: np.ndarray, evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The step at which the accumulated evidence of each trial [trial, step] passes the bounds, from 0, and
    the sign that is chosen."""
    x = np.cumsum(evidence, axis=1) * problem.dt
    stops = np.abs(x) >= bounds
    step = stops.argmax(axis=1)
    return step, np.sign(x[np.arange(len(x)), step])
