"""The reference of optimal stopping against known bounds and play; the gates of payoffs and their order."""

import numpy as np
import pytest

stopping = pytest.importorskip("references.optimal_stopping", reason="examples/ is not beside the tests")
script = pytest.importorskip("optimal_stopping", reason="examples/ is not beside the tests")

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


def responses(accuracy, time, n_trials=1000):
    right = np.arange(n_trials) < accuracy * n_trials
    return script.Responses(np.full((1, n_trials), time), np.where(right, 1.0, -1.0)[None])


@pytest.mark.parametrize(("accuracy", "passes"), [(0.9, True), (0.85, False), (0.97, False)])
def test_a_payoff_must_be_near_the_best_and_not_above(accuracy, passes):
    best = responses(0.9, 0.5)
    best = script.Responses(best.times[0], best.payoffs[0])
    (row,) = script.payoff_rows("payoff", responses(accuracy, 0.5), best, cost=0.3)
    assert row.passed is passes


def test_accuracy_and_time_must_fall_with_the_cost():
    cheap, middle, dear = (responses(*x) for x in ((0.9, 0.8), (0.8, 0.5), (0.7, 0.1)))
    good = script.order_rows(dict(zip(script.COSTS, (cheap, middle, dear), strict=True)))
    bad = script.order_rows(dict(zip(script.COSTS, (cheap, dear, middle), strict=True)))
    assert [row.passed for row in good] == [True] * 4
    assert [row.passed for row in bad] == [True, True, False, False]
