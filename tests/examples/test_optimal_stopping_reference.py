"""The reference of optimal stopping against known bounds and play."""

import numpy as np
import pytest

stopping = pytest.importorskip("references.optimal_stopping", reason="examples/ is not beside the tests")

PROBLEM = stopping.Problem(
    (-0.4, -0.1, 0.1, 0.4), noise=0.2, dt=0.05, n_steps=20, cost=0.3, error_payoff=-1.0
)


def played(problem, bounds, n_trials=40_000):
    rng = np.random.default_rng(0)
    coherence = rng.choice(problem.coherences, n_trials)
    noise = problem.noise / problem.dt**0.5 * rng.standard_normal((n_trials, problem.n_steps))
    steps, signs = stopping.play(problem, bounds, coherence[:, None] + noise)
    right = signs == np.sign(coherence)
    return np.where(right, 1.0, problem.error_payoff) - problem.cost * problem.dt * steps


def test_the_best_player_is_paid_what_is_computed():
    solution = stopping.solve(PROBLEM)
    payoffs = played(PROBLEM, solution.bounds)
    assert abs(payoffs.mean() - solution.value) < 3.5 * payoffs.std() / len(payoffs) ** 0.5


@pytest.mark.parametrize("factor", [0.5, 1.6])
def test_other_bounds_are_worth_less(factor):
    bounds = stopping.solve(PROBLEM).bounds
    difference = played(PROBLEM, bounds) - played(PROBLEM, factor * bounds)
    assert difference.mean() > 3 * difference.std() / len(difference) ** 0.5
