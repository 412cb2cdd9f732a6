"""Tuning curves, cosines, changes of preferred directions, and concentrated angles."""

import numpy as np

from popsim.analysis import neural_activity

EIGHT = np.arange(8) * np.pi / 4
ROUNDED = np.concatenate([EIGHT, EIGHT.astype(np.float32)])  # each direction twice


def test_tuning_curves_of_repeated_directions():
    direction = np.concatenate([EIGHT, EIGHT.astype(np.float32) - 2 * np.pi])  # the same ones, rounded
    noise = np.repeat([0.5, -0.5], 8)[:, None]
    activity = np.cos(direction)[:, None] * [2.0, 0.0] + noise
    found = neural_activity.tuning_curves(activity, direction)
    np.testing.assert_allclose(found.direction, np.sort(np.angle(np.exp(1j * (EIGHT - 1e-9)))), atol=1e-6)
    np.testing.assert_allclose(found.mean[:, 0], 2 * np.cos(found.direction), atol=1e-6)
    np.testing.assert_allclose(found.deviation, np.sqrt(0.5), atol=1e-6)
    np.testing.assert_allclose(found.depth, [4.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(found.explained, [2.0 / 2.25, 0.0], atol=1e-6)
    assert found.n_trials.tolist() == [2] * 8
    assert np.isnan(neural_activity.tuning_curves(activity[:8], EIGHT).deviation).all()  # of one trial


def test_all_analyses_take_the_same_trials_for_one_condition():
    activity = np.random.default_rng(0).normal(size=(1, 16, 2, 3))
    by_direction = neural_activity.average_by_factors(activity, {"direction": ROUNDED})
    assert by_direction.shape == (1, 8, 2, 3)
    curves = neural_activity.tuning_curves(activity[0, :, 0], ROUNDED)
    np.testing.assert_array_equal(curves.n_trials, 2)
    np.testing.assert_allclose(curves.mean[3:], by_direction[0, :5, 0])  # from -3 pi / 4; here from 0
    assert neural_activity.chance_level(ROUNDED) == 1 / 8
    assert neural_activity.chance_level(np.array([0.1, 0.1001])) == 1 / 2


def test_the_change_of_preferred_directions_goes_the_short_way():
    before, after = (
        np.array([[3.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
        np.array([[-3.0, 0.5, 1.0], [0.0, np.pi, 0.0]]),
    )
    found = neural_activity.preferred_direction_change(before, after)
    np.testing.assert_allclose(found.angle[0], [2 * np.pi - 6, 0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(found.stability, [np.cos(found.angle[0]).mean(), 1 / 3])
    tuned = np.array([[False, True, True], [False, False, False]])
    of_tuned = neural_activity.preferred_direction_change(before, after, tuned=tuned).stability
    np.testing.assert_allclose(of_tuned, [(1 + np.cos(0.5)) / 2, np.nan])


def test_concentrated_angles():
    found = neural_activity.rayleigh_test(
        np.stack([EIGHT, np.full(8, 3.0), np.tile([1.0, 1.0 + np.pi / 2], 4)])
    )
    np.testing.assert_allclose(found.resultant_length, [0, 1, np.sqrt(0.5)], atol=1e-12)
    np.testing.assert_allclose(found.direction[1:], [3.0, 1.0 + np.pi / 4])
    squared = 64 * found.resultant_length**2  # Zar 1999: n = 8
    np.testing.assert_allclose(found.p, np.exp(np.sqrt(33 + 4 * (64 - squared)) - 17), rtol=1e-9)


def test_planted_preferred_directions_are_found():
    preferred, depth, baseline = np.array([[0.3, -2.0, 3.0], [1.0, 0.5, 2.0], [1.0, 2.0, 3.0]])
    activity = baseline + depth * np.cos(EIGHT[:, None] - preferred)
    found = neural_activity.cosine_tuning(np.stack([activity, 2 * activity]), EIGHT)
    np.testing.assert_allclose(found.preferred, [preferred, preferred], atol=1e-12)
    np.testing.assert_allclose(found.depth, [depth, 2 * depth])
    np.testing.assert_allclose(found.baseline, [baseline, 2 * baseline])
    np.testing.assert_allclose(found.explained, 1.0)


def test_uneven_directions_do_not_shift_the_preferred_one():
    direction = np.array([0.0, 0.2, 0.4, 2.0, 4.0])
    found = neural_activity.cosine_tuning(1 + np.cos(direction - 1.1)[:, None], direction)
    np.testing.assert_allclose(found.preferred, [1.1])
