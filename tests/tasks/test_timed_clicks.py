"""Clicks by reaction time: what is shown and paid, and the best player against its dynamic programme."""

import jax
import numpy as np
import pytest
from short_form import every_nth

import popsim
from popsim import tasks
from popsim.distributions import Choice, Uniform

KEY = jax.random.key(0)


def reward_of(player, trials):
    reward = np.asarray(tasks.play(player, trials, key=KEY).reward).sum(1).astype(float)
    return reward.mean(), reward.std() / reward.size**0.5


def test_clicks_have_their_rates_from_the_start_of_the_stimulus_on():
    task = tasks.ReactionTimeClicks(fixation=Uniform(0.1, 0.4))
    trials = jax.tree.map(np.asarray, popsim.sample_trials(task, 2000, batch=0, key=KEY))
    clicks, fixates = trials.inputs["stimulus"], trials.inputs["fixation"][..., 0] > 0
    np.testing.assert_array_equal(fixates.sum(1), trials.timeline.events["stimulus on"])
    assert not clicks[fixates].any()
    rates = clicks.sum(1) / (0.05 * (~fixates).sum(1))[:, None]
    for log_ratio in np.unique(trials.conditions["log ratio"]):
        of_ratio = trials.conditions["log ratio"] == log_ratio
        left, right = rates[of_ratio].mean(0)
        assert left + right == pytest.approx(40.0, rel=0.03)
        assert np.log(right / left) == pytest.approx(log_ratio, abs=0.15)
        np.testing.assert_array_equal(trials.conditions["choice"][of_ratio], log_ratio > 0)


NUMBERS = {
    "default": {},
    "costly": {"log_ratio": Choice([-0.5, 0.5]), "waiting_cost": 0.5, "error_payoff": -1.0},
    "few": {"log_ratio": Choice([-1.0, 0.0, 1.0]), "total_rate": 10.0, "duration": 1.0},
}


@pytest.mark.parametrize("name", every_nth(NUMBERS, 3))
def test_the_best_bounds_are_paid_what_the_dynamic_programme_says(name):
    task = tasks.ReactionTimeClicks(**NUMBERS[name])
    best, trials = tasks.optimal_clicks(task), popsim.sample_trials(task, 4000, batch=0, key=KEY)
    mean, error = reward_of(best.player, trials)
    assert abs(mean - best.mean_reward) < 4 * error
    bounds = np.asarray(best.player.bounds)
    for other in (np.maximum(bounds - 2, 0), bounds + 2):  # a difference is as even as the number of clicks
        assert reward_of(tasks.ClickBounds(other), trials)[0] < mean


def test_with_one_ratio_the_difference_is_all_that_counts():
    # The odds are exp(difference * log ratio): the bound at a time is the same for all numbers of clicks.
    task = tasks.ReactionTimeClicks(log_ratio=Choice([-0.7, 0.7]))
    bounds = np.asarray(tasks.optimal_clicks(task).player.bounds)[:-1, :40]
    for parity in (0, 1):  # of the number of clicks, which is that of the difference
        n_clicks, of_parity = np.arange(40)[parity::2], bounds[:, parity::2]
        bound = of_parity.min(1, keepdims=True)
        np.testing.assert_array_equal(of_parity, np.where(n_clicks >= bound, bound, np.inf))
        assert np.all(np.diff(bound[:, 0]) <= 0) and np.all(np.isfinite(bound))


def test_extreme_log_ratios_are_sure_after_one_click():
    # One click on a side tells everything; without any, after the first step, both sides are as probable.
    best = tasks.optimal_clicks(tasks.ReactionTimeClicks(log_ratio=Choice([-800.0, 800.0])))
    bounds = np.asarray(best.player.bounds)
    np.testing.assert_array_equal(bounds[:-1, 1], 1.0)
    mean_clicks = 0.05 * 40.0  # in a time step, on one side
    # The value of waiting is that of the first step in which there is a click, for 0.2 / s.
    steps = np.arange(38)
    expected = np.sum(np.exp(-mean_clicks * steps) * (1 - np.exp(-mean_clicks)) * (1 - 0.01 * steps))
    assert best.mean_reward == pytest.approx(expected, abs=1e-6)


def test_what_the_dynamic_programme_cannot_know_is_refused(as_users_run):
    for options, name in (
        ({"fixation": Uniform(0.1, 0.3)}, "fixation"),
        ({"log_ratio": Uniform(-0.5, 0.5)}, "log_ratio"),
        ({"log_ratio": Choice([-0.1, 0.2])}, "log_ratio"),
        ({"early_payoff": 0.97}, "early_payoff"),
    ):
        with pytest.raises(ValueError, match=f"`{name}` of `task`"):
            tasks.optimal_clicks(tasks.ReactionTimeClicks(**options))
    with pytest.raises(ValueError, match="`task` must be a task of the class ReactionTimeClicks"):
        tasks.optimal_clicks(tasks.ReactionTimeDecision())
    with pytest.raises(ValueError, match="below 1000, as all pairs of numbers are visited, got 2196"):
        tasks.optimal_clicks(tasks.ReactionTimeClicks(total_rate=100.0, duration=20.0))
