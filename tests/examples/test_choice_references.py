"""Best players and observers against direct recursions, exact filters, play and SciPy."""

import functools

import jax
import numpy as np
import pytest
from scipy import optimize, stats

bandit = pytest.importorskip("references.bandit", reason="examples/ is not beside the tests")
script = pytest.importorskip("bandit_regret", reason="examples/ is not beside the tests")
reversal = pytest.importorskip("references.reversal", reason="examples/ is not beside the tests")
two_step = pytest.importorskip("references.two_step", reason="examples/ is not beside the tests")
stopping = pytest.importorskip("references.optimal_stopping", reason="examples/ is not beside the tests")
ideal_observer = pytest.importorskip("references.ideal_observer", reason="examples/ is not beside the tests")


# Bandit


@functools.cache
def best_value(n_left, s, f, z, g):
    """The expected sum of rewards, one state at a time."""
    if n_left == 0:
        return 0.0
    first, second = (1 + s) / (2 + s + f), (1 + z) / (2 + z + g)
    after = functools.partial(best_value, n_left - 1)
    return max(
        first * (1 + after(s + 1, f, z, g)) + (1 - first) * after(s, f + 1, z, g),
        second * (1 + after(s, f, z + 1, g)) + (1 - second) * after(s, f, z, g + 1),
    )


@pytest.mark.parametrize("n_choices", [1, 2, 7, 12])
def test_backward_induction_gives_the_value_of_the_recursion(n_choices):
    value = bandit.optimal_player(n_choices).value
    assert value == pytest.approx(best_value(n_choices, 0, 0, 0, 0), rel=1e-12)


def test_the_bandit_pays_the_chosen_arm_or_one_that_is_drawn():
    keys = jax.random.split(jax.random.key(0), 200)

    def paid(pays_chosen, action):
        arms = script.Bandit(np.array([0.0, 1.0]), np.array(pays_chosen))
        outcome = jax.vmap(lambda key: arms.step((), np.array(action), key=key)[1])(keys)
        np.testing.assert_array_equal(outcome.observation["last reward"][:, 0], action)
        np.testing.assert_array_equal(outcome.record, 1 - action)
        return outcome.reward.mean()

    assert paid(True, 0) == 0 and paid(True, 1) == 1
    assert 0.3 < paid(False, 0) < 0.7 and 0.3 < paid(False, 1) < 0.7


# Reversal


def test_switches_are_counted_from_the_reversal():
    #        reversal at 3 and at 7: two late choices, then one that is at once
    good = np.array([[0, 0, 0, 1, 1, 1, 1, 0, 0, 0]])
    chosen = np.array([[0, 0, 0, 0, 0, 1, 1, 0, 0, 0]])
    np.testing.assert_array_equal(reversal.switch_times(chosen, good), [2, 0])
    # Not before the next reversal; and not where the other arm was chosen before.
    np.testing.assert_array_equal(reversal.switch_times(np.zeros((1, 10), int), good), [])
    np.testing.assert_array_equal(reversal.switch_times(np.ones((1, 10), int), good), [])


def test_choices_follow_the_exact_posterior_of_all_histories():
    """The posterior over all sequences of good arms of five choices, summed one by one."""
    p, h, n = 0.8, 0.15, 6
    choices, good = reversal.play(p, h, h, 3000, n, seed=0)
    rng = np.random.default_rng(0)
    paid = []
    rng.integers(0, 2, 3000)
    for t in range(n):  # the draws of `play`, in their order
        rng.integers(0, 2, 3000)
        probability = np.where(choices[:, t] == good[:, t], p, 1 - p)
        paid.append(rng.random(3000) < probability)
        rng.random(3000)
    sequences = np.array(np.meshgrid(*[[0, 1]] * n)).reshape(n, -1).T
    prior = np.prod(np.where(np.diff(sequences, axis=1) != 0, h, 1 - h), axis=1)
    for trial in range(200):
        likelihood = prior.copy()
        for t in range(n - 1):
            chance = np.where(sequences[:, t] == choices[trial, t], p, 1 - p)
            likelihood *= chance if paid[t][trial] else 1 - chance
        second = likelihood[sequences[:, -1] == 1].sum() / likelihood.sum()
        if abs(second - 0.5) > 1e-9:
            assert choices[trial, -1] == (second > 0.5)


# Two step

NUMBERS = (0.8, 0.9, 0.025, 100, 100)  # common, paid, hazard rate, sessions, choices


def test_after_one_rare_reward_only_a_planner_leaves():
    """By hand: V(1) = F(0) = 0.75 after action 0, stage 1 and a reward, from 1/2."""
    sessions = two_step.Sessions(np.array([[0, 0]]), np.array([[1, 0]]), np.array([[1, 0]]))
    for weight, preference in ((1.0, 0.6 * 0.25), (0.0, -0.25)):
        agent = two_step.Agent(weight, 0.5, 4.0, 0.2)
        staying = -np.log1p(np.exp(4.0 * preference - 0.2))
        expected = (np.log(0.5) + staying) / 2
        assert two_step.log_likelihood(agent, sessions, 0.8) == pytest.approx(expected)


@pytest.mark.parametrize("weight", [0.0, 0.6, 1.0])
def test_the_fit_recovers_the_agent(weight):
    truth = two_step.Agent(weight, 0.5, 5.0, 0.3)
    sessions = two_step.simulate(truth, *NUMBERS, seed=0)
    fitted, likelihood = two_step.fit(sessions, 0.8)
    assert fitted.weight == pytest.approx(weight, abs=0.07)
    assert fitted.learning_rate == pytest.approx(0.5, abs=0.05)
    assert fitted.perseveration == pytest.approx(0.3, abs=0.1)
    assert likelihood >= two_step.log_likelihood(truth, sessions, 0.8)


def test_staying_is_counted_by_reward_and_transition():
    sessions = two_step.Sessions(
        actions=np.array([[0, 0, 1, 1, 0, 1]]),
        stages=np.array([[0, 1, 1, 0, 0, 1]]),  # common, rare, common, rare, common
        rewards=np.array([[1, 1, 0, 0, 1, 0]]),
    )
    # Paid: stays after common once of two, not after rare. Not paid: stays after common, not after rare.
    np.testing.assert_array_equal(two_step.stay_probabilities(sessions), [[0, 1], [0, 0.5]])
    assert two_step.interaction(sessions) == pytest.approx(-0.5)


# Optimal stopping

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


# Ideal observer

COHERENCES = np.array([-0.5, -0.25, -0.12, -0.06, 0.06, 0.12, 0.25, 0.5])
EVIDENCE = ideal_observer.Evidence(n_steps=25, noise=1.0)


def _drawn_coherences(n_trials, seed=0):
    return np.random.default_rng(seed).choice(COHERENCES, (n_trials, 2))


def test_the_known_values_of_the_task():
    assert EVIDENCE.slope == pytest.approx(5.0)
    assert EVIDENCE.accuracy(COHERENCES) == pytest.approx(0.8079, abs=5e-5)
    assert ideal_observer.Evidence(25, 2.0).slope == pytest.approx(2.5)


@pytest.mark.parametrize("judged", [0, 1])
def test_simulated_choices_are_as_good_and_as_steep_as_expected(judged):
    coherences = _drawn_coherences(100_000)
    chose_right = ideal_observer.simulated_choices(coherences, EVIDENCE, judged, seed=1)
    correct = np.mean(chose_right == (coherences[:, judged] > 0))
    assert abs(correct - EVIDENCE.accuracy(COHERENCES)) < 3 * (0.2 / 1e5) ** 0.5
    for coherence in COHERENCES:
        own = chose_right[coherences[:, judged] == coherence]
        expected = stats.norm.cdf(5 * coherence)
        assert abs(own.mean() - expected) < 4 * (expected * (1 - expected) / len(own)) ** 0.5
    fit = ideal_observer.fit_psychometric(coherences, chose_right)
    assert fit.errors.max() < 0.04 and abs(fit.bias) < 0.02
    assert abs(fit.slopes[judged] - 5.0) < 3.5 * fit.errors[judged]
    assert abs(fit.slopes[1 - judged]) < 3.5 * fit.errors[1 - judged]


def test_the_fit_is_the_maximum_of_the_likelihood_and_its_errors_are_right():
    rng = np.random.default_rng(3)
    coherences = _drawn_coherences(4000, seed=4)
    true = np.array([0.3, 4.0, -1.0])
    p = ideal_observer.psychometric_curve(coherences, true[0], true[1:])
    fits = [ideal_observer.fit_psychometric(coherences, rng.random(4000) < p) for _ in range(60)]
    slopes = np.array([fit.slopes for fit in fits])
    np.testing.assert_allclose(slopes.mean(axis=0), true[1:], atol=4 * slopes.std() / 60**0.5)
    np.testing.assert_allclose(slopes.std(axis=0, ddof=1), fits[0].errors, rtol=0.35)

    chose_right = rng.random(4000) < p
    signs = np.where(chose_right, 1, -1)
    found = optimize.minimize(
        lambda b: -stats.norm.logcdf(signs * (b[0] + coherences @ b[1:])).sum(), np.zeros(3), tol=1e-10
    )
    fit = ideal_observer.fit_psychometric(coherences, chose_right)
    np.testing.assert_allclose([fit.bias, *fit.slopes], found.x, atol=1e-4)
