"""What analyses share: draws by a key, standard errors, and which labels of trials are the same."""

import numpy as np

from popsim.analysis._arrays import standard_errors, unique_labels
from popsim.analysis.neural_activity import average_by_factors, chance_level, tuning_curves

SLOPES = np.random.default_rng(0).normal(size=(30, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.9], [0, 0, 1]])


def test_they_are_those_of_the_inverse_information():
    expected = np.sqrt(np.diag(np.linalg.inv(SLOPES.T @ SLOPES)))
    np.testing.assert_allclose(standard_errors(SLOPES), expected)
    units = np.array([1e-60, 1.0, 1e40])
    np.testing.assert_allclose(standard_errors(SLOPES * units), expected / units)


def test_values_that_cannot_be_told_apart_have_infinite_errors():
    alike, none = SLOPES[:, [0, 1, 1]] * [1, 1, 1e-8], SLOPES * [1, 0, 1]
    for slopes in (alike, none, SLOPES[:2]):
        assert np.isinf(standard_errors(slopes)).all()


EIGHT = np.arange(8) * np.pi / 4
ROUNDED = np.concatenate([EIGHT, EIGHT.astype(np.float32)])  # each direction twice


def test_numbers_that_differ_by_rounding_are_one_label():
    found, which = unique_labels(np.array([0.3, np.float32(0.1), 0.1, 0.1001]))
    np.testing.assert_allclose(found, [0.1, 0.1001, 0.3], rtol=1e-6)
    assert which.tolist() == [2, 0, 0, 1]
    assert unique_labels(np.zeros(3))[0].tolist() == [0.0]


def test_all_analyses_take_the_same_trials_for_one_condition():
    activity = np.random.default_rng(0).normal(size=(1, 16, 2, 3))
    by_direction = average_by_factors(activity, {"direction": ROUNDED})
    assert by_direction.shape == (1, 8, 2, 3)
    curves = tuning_curves(activity[0, :, 0], ROUNDED)
    np.testing.assert_array_equal(curves.n_trials, 2)
    np.testing.assert_allclose(curves.mean[3:], by_direction[0, :5, 0])  # from -3 pi / 4; here from 0
    assert chance_level(ROUNDED) == 1 / 8
