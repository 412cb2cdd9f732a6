"""Reproduced angles, and shapes with weights."""

import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials

import popsim
from popsim.tasks import AngleReproduction, ProbabilisticReasoning


def test_angles_are_reproduced_in_their_order(getkey):
    response = popsim.tasks.GoResponse(catch_probability=0.2)
    trials = many_trials(AngleReproduction(response=response, noise=0.0), getkey(), 500)
    is_catch = trials.conditions["catch"]
    np.testing.assert_allclose(is_catch.mean(), 0.2, atol=share_error(0.2, 500))
    values = trials.targets.values
    for which, (start, end) in {"first": (50, 60), "second": (60, 70)}.items():
        angle = trials.conditions[f"{which} angle"]
        expected = np.stack([np.cos(angle), np.sin(angle)], axis=1) * ~is_catch[:, None]
        np.testing.assert_allclose(values[:, start:end], expected[:, None] + np.zeros((10, 1)), atol=1e-5)
        begin = {"first": 10, "second": 30}[which]
        shown = trials.inputs["stimulus"][:, begin]
        preferred = 2 * np.pi * np.arange(16) / 16
        np.testing.assert_allclose(shown, np.cos(preferred - angle[:, None]), atol=1e-5)
        np.testing.assert_allclose(np.abs(np.mean(np.exp(1j * angle))), 0, atol=4 / 500**0.5)
    assert not values[:, :50].any()
    np.testing.assert_allclose(
        trials.targets.counts[~is_catch][0, [0, 49, 50, 52, 60, 62, 69]], [0.2, 0.2, 0, 1, 0, 1, 1]
    )
    np.testing.assert_array_equal(trials.inputs["report"].sum((1, 2)), np.where(is_catch, 0, 20))
    assert validation_trials(AngleReproduction()).conditions["first angle"].size == 64


@pytest.mark.full
def test_shapes_stay_at_their_places_and_the_reward_follows_their_weights(getkey):
    task, n = ProbabilisticReasoning(noise=0.0), 4000
    trials = many_trials(task, getkey(), n)
    shapes, places = trials.conditions["shapes"], trials.conditions["places"]
    by_place = trials.inputs["stimulus"].reshape(n, -1, 4, 10)
    each = np.arange(n)
    for index in range(4):
        shown = by_place[each, :, places[:, index], shapes[:, index]]
        begin = 10 + 10 * index
        assert not shown[:, :begin].any() and np.all(shown[:, begin:50] == 1) and not shown[:, 50:].any()
    np.testing.assert_array_equal(trials.inputs["stimulus"].sum((1, 2)), 10 * (1 + 2 + 3 + 4))
    log_odds = np.asarray(task.weights)[shapes].sum(1)
    np.testing.assert_allclose(trials.conditions["log odds"], log_odds, atol=1e-5)
    probability = 1 / (1 + 10.0**-log_odds)
    rewarded = trials.conditions["choice"]
    np.testing.assert_allclose((rewarded - probability).mean(), 0, atol=share_error(0.5, n))
    slope = np.mean((rewarded - probability) * np.clip(log_odds, -2, 2))
    np.testing.assert_allclose(slope, 0, atol=5 / n**0.5)
    validation = validation_trials(task).conditions["shapes"]
    assert {*zip(*np.nonzero(np.ones((4, 10))), strict=True)} <= {
        (time, shape) for row in validation for time, shape in enumerate(row.tolist())
    }
