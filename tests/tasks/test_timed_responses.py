"""Responses that end a trial, clicks by reaction time, and the best times for them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import tasks
from popsim.distributions import Choice, Uniform
from popsim.tasks.rewards.timed_responses import ResponseEnvironment
from references import optimal_clicks, optimal_stopping

KEY = jax.random.key(0)


def outcomes(actions, payoffs=(-0.5, 1.0, 0.25), opens=2, cost=0.1, last=4):
    """The rewards of a sequence of actions, and whether the trial is done after each."""
    environment = ResponseEnvironment(
        jnp.array(payoffs), jnp.asarray(-0.2), jnp.asarray(cost), jnp.array(opens), jnp.array(last)
    )
    state, shown = environment.init(key=KEY)
    assert shown == {}
    rewards, done = [], []
    for action in actions:
        state, outcome = environment.step(state, jnp.array(action), key=KEY)
        rewards.append(float(outcome.reward))
        done.append(bool(outcome.done))
    return rewards, done


def test_a_response_is_paid_when_it_is_open_and_ends_the_trial():
    assert outcomes([0, 0, 0, 1])[1] == [False, False, False, True]
    np.testing.assert_allclose(outcomes([0, 0, 0, 1])[0], [0.0, 0.0, -0.1, 1.0], atol=1e-6)
    np.testing.assert_allclose(outcomes([0, 0, 2])[0], [0.0, 0.0, 0.25], atol=1e-6)


def test_early_responses_and_none_have_their_own_pay():
    early, done = outcomes([0, 1])
    np.testing.assert_allclose(early, [0.0, -0.2], atol=1e-6)
    assert done == [False, True]
    none, done = outcomes([0] * 5)
    np.testing.assert_allclose(none, [0.0, 0.0, -0.1, -0.1, -0.6], atol=1e-6)
    assert done == [False] * 4 + [True]


class Fast(tasks.AbstractPlayer):
    """Responds in the step of the stimulus: to go, or toward the side that the rule says."""

    def init(self):
        return ()

    def choose(self, received, state, *, key):
        first, second = received["stimulus"]
        if "rule" not in received:
            return (first > 0).astype(int), state
        is_left = jnp.where(received["rule"][1] > 0, second > 0, first > 0)
        return jnp.where(first + second > 0, jnp.where(is_left, 1, 2), 0), state


@pytest.mark.parametrize("task", [tasks.GoNoGo(), tasks.AntiResponse()], ids=lambda task: type(task).__name__)
def test_the_best_response_is_paid_in_full_and_has_the_time_of_the_stimulus(task):
    trials = popsim.sample_trials(task, 200, batch=0, key=KEY)
    played = tasks.play(Fast(), trials, key=KEY)
    np.testing.assert_allclose(played.reward.sum(1), 1.0, atol=1e-6)
    responds = np.asarray((played.record["response"] & played.active).any(1))
    expected = trials.conditions["is go"] if "is go" in trials.conditions else np.ones(200, bool)
    np.testing.assert_array_equal(responds, expected)
    n_steps = np.where(
        expected, np.asarray(trials.timeline.events["stimulus on"]) + 1, trials.timeline.n_steps
    )
    np.testing.assert_array_equal(played.active.sum(1), n_steps)


def reward_of(player, trials):
    reward = np.asarray(tasks.play(player, trials, key=KEY).reward).sum(1).astype(float)
    return reward.mean(), reward.std() / reward.size**0.5


@pytest.mark.full
def test_the_observer_of_the_wager_takes_what_pays_more():
    task = tasks.PostDecisionWager(offer_probability=1.0)
    trials = popsim.sample_trials(task, 3000, batch=0, key=KEY)
    shown = np.asarray(trials.timeline.in_epoch("stimulus"))
    evidence = np.asarray(trials.inputs["evidence"])[..., 0]
    right = np.asarray(
        tasks.probability_of_right(
            jnp.asarray(task.dt * evidence.sum(1)),
            jnp.asarray(task.dt * shown.sum(1), float),
            task.coherence.values,
            task.noise,
        )
    )
    sure = np.maximum(right, 1 - right) < 0.7
    played = tasks.play(tasks.WagerObserver(task), trials, key=KEY)
    takes = np.asarray((played.action == 3) & played.active).any(1)
    assert (takes != sure).mean() < 1e-3 and 0.1 < sure.mean() < 0.9
    expected = np.where(sure, 0.7, np.maximum(right, 1 - right)).mean()
    reward = np.asarray(played.reward).sum(1)
    assert abs(reward.mean() - expected) < 4 * reward.std() / 3000**0.5


def test_a_sure_response_without_an_offer_pays_as_an_early_one():
    trials = tasks.PostDecisionWager().validation_trials()
    payoffs, has_offer = np.asarray(trials.environment.payoffs), np.asarray(trials.conditions["has offer"])
    np.testing.assert_allclose(payoffs[:, 3], np.where(has_offer, 0.7, -0.1), rtol=1e-6)
    correct = payoffs[np.arange(len(payoffs)), 1 + np.asarray(trials.conditions["choice"])]
    assert np.all(correct == 1) and np.all(payoffs[:, 1:3].sum(1) == 1)


def test_clicks_have_their_rates_from_the_start_of_the_stimulus_on():
    task = tasks.ReactionTimeClicks(fixation=Uniform(0.1, 0.4))
    trials = jax.tree.map(np.asarray, popsim.sample_trials(task, 2000, batch=0, key=KEY))
    heard, fixates = trials.inputs["stimulus"], trials.inputs["fixation"][..., 0] > 0
    np.testing.assert_array_equal(fixates.sum(1), trials.timeline.events["stimulus on"])
    assert not heard[fixates].any()
    rates = heard.sum(1) / (0.05 * (~fixates).sum(1))[:, None]
    for log_ratio in np.unique(trials.conditions["log ratio"]):
        of_ratio = trials.conditions["log ratio"] == log_ratio
        left, right = rates[of_ratio].mean(0)
        assert left + right == pytest.approx(40.0, rel=0.03)
        assert np.log(right / left) == pytest.approx(log_ratio, abs=0.15)
        np.testing.assert_array_equal(trials.conditions["choice"][of_ratio], log_ratio > 0)


def test_the_best_bounds_of_evidence_are_paid_what_the_dynamic_programme_says():
    coherences = (-0.4, -0.1, 0.1, 0.4)
    task = tasks.ReactionTimeDecision(
        coherence=Choice(coherences), noise=0.2, waiting_cost=0.5, error_payoff=-1.0
    )
    best = optimal_stopping.solve(optimal_stopping.Problem(coherences, 0.2, task.dt, 38, 0.5, -1.0))
    trials = popsim.sample_trials(task, 4000, batch=0, key=KEY)
    mean, error = reward_of(tasks.DecisionBounds(best.bounds, dt=task.dt), trials)
    assert abs(mean - best.value) < 4 * error
    for factor in (0.5, 2.0):
        assert reward_of(tasks.DecisionBounds(factor * best.bounds, dt=task.dt), trials)[0] < mean


def test_the_best_bounds_of_clicks_are_paid_what_the_dynamic_programme_says():
    task = tasks.ReactionTimeClicks(log_ratio=Choice([-0.5, 0.5]), waiting_cost=0.5, error_payoff=-1.0)
    best, bounds = optimal_clicks.solve(optimal_clicks.Problem((-0.5, 0.5), 40.0, 0.05, 38, 0.5, -1.0))
    trials = popsim.sample_trials(task, 4000, batch=0, key=KEY)
    mean, error = reward_of(tasks.ClickBounds(bounds), trials)
    assert abs(mean - best) < 4 * error
    for other in (np.maximum(bounds - 2, 0), bounds + 2):  # a difference is as even as the number of clicks
        assert reward_of(tasks.ClickBounds(other), trials)[0] < mean
