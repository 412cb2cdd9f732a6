"""Best players and observers against direct recursions, exact filters, play and SciPy."""

import functools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from popsim.analysis.behaviour import fit_psychometric
from references import bandit, ideal_observer, interval_timing, reversal, tiny_networks, two_step

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


@pytest.mark.parametrize("n_choices", [2, 7])
def test_backward_induction_gives_the_value_of_the_recursion(n_choices):
    value = bandit.optimal_player(n_choices).value
    assert value == pytest.approx(best_value(n_choices, 0, 0, 0, 0), rel=1e-12)


# Reversal


def test_switches_are_counted_from_the_reversal():
    #        reversal at 3 and at 7: two late choices, then one that is at once
    good = np.array([[0, 0, 0, 1, 1, 1, 1, 0, 0, 0]])
    chosen = np.array([[0, 0, 0, 0, 0, 1, 1, 0, 0, 0]])
    np.testing.assert_array_equal(reversal.switch_times(chosen, good), [2, 0])
    # Not before the next reversal; and not where the other arm was chosen before.
    np.testing.assert_array_equal(reversal.switch_times(np.zeros((1, 10), int), good), [])
    np.testing.assert_array_equal(reversal.switch_times(np.ones((1, 10), int), good), [])


# Two step


def test_after_one_rare_reward_only_a_planner_leaves():
    """By hand: V(1) = F(0) = 0.75 after action 0, stage 1 and a reward, from 1/2."""
    sessions = two_step.Sessions(np.array([[0, 0]]), np.array([[1, 0]]), np.array([[1, 0]]))
    for weight, preference in ((1.0, 0.6 * 0.25), (0.0, -0.25)):
        agent = two_step.Agent(weight, 0.5, 4.0, 0.2)
        staying = -np.log1p(np.exp(4.0 * preference - 0.2))
        expected = (np.log(0.5) + staying) / 2
        assert two_step.log_likelihood(agent, sessions, 0.8) == pytest.approx(expected)


def test_staying_is_counted_by_reward_and_transition():
    sessions = two_step.Sessions(
        actions=np.array([[0, 0, 1, 1, 0, 1]]),
        stages=np.array([[0, 1, 1, 0, 0, 1]]),  # common, rare, common, rare, common
        rewards=np.array([[1, 1, 0, 0, 1, 0]]),
    )
    # Paid: stays after common once of two, not after rare. Not paid: stays after common, not after rare.
    np.testing.assert_array_equal(two_step.stay_probabilities(sessions), [[0, 1], [0, 0.5]])
    assert two_step.interaction(sessions) == pytest.approx(-0.5)


# Tiny networks


def test_log_odds_of_a_learner_by_hand():
    """Values are 0 and 1/2 after choice 1 was paid, then 1/2 and 1/4."""
    actions, rewards = np.array([[1, 0, 1]]), np.array([[1, 1, 0]])
    learner = {"rate": 0.5, "beta": 2.0, "stickiness": 0.1, "forgetting": 0.5}
    log_odds = tiny_networks.log_odds(actions, rewards, **learner)
    np.testing.assert_allclose(log_odds, [[0, 1.1, -0.6]])
    expected = [[np.log(2), 1.1 + np.log1p(np.exp(-1.1)), np.log1p(np.exp(0.6))]]
    np.testing.assert_allclose(tiny_networks.nats(log_odds, actions), expected)


# Ideal observer

COHERENCES = np.array([-0.5, -0.25, -0.12, -0.06, 0.06, 0.12, 0.25, 0.5])
EVIDENCE = ideal_observer.Evidence(n_steps=25, noise=1.0)


def test_the_known_values_of_the_task():
    assert EVIDENCE.slope == pytest.approx(5.0)
    assert EVIDENCE.accuracy(COHERENCES) == pytest.approx(0.8079, abs=5e-5)
    assert ideal_observer.Evidence(25, 2.0).slope == pytest.approx(2.5)


def test_the_fit_is_that_of_the_analysis_which_statsmodels_confirms():
    rng = np.random.default_rng(3)
    coherences = rng.choice(COHERENCES, (4000, 2))
    chose_right = rng.random(4000) < ideal_observer.psychometric_curve(coherences, 0.3, np.array([4.0, -1.0]))
    found = ideal_observer.fit_psychometric(coherences, chose_right)
    expected = fit_psychometric(coherences, chose_right[None])
    np.testing.assert_allclose([found.bias, *found.slopes], [*expected.bias, *expected.slopes[0]], atol=1e-5)
    errors = [*expected.bias_error, *expected.slope_errors[0]]
    np.testing.assert_allclose(found.errors, errors[-len(found.errors) :], rtol=1e-3)


# Interval timing


@pytest.mark.parametrize("measured", [0.55, 0.8, 1.1])
def test_the_estimate_of_an_interval_is_the_mean_of_its_posterior(measured):
    def moment(power):
        return quad(lambda t: t**power * norm.pdf(measured, t, 0.1 * t), 0.6, 1.0)[0]

    found = interval_timing.estimate(np.array(measured), 0.6, 1.0, 0.1)
    np.testing.assert_allclose(found, moment(1) / moment(0), rtol=1e-5)
