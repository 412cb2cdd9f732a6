"""Labels of trials: which are the same."""

import jax
import numpy as np
import pytest

from popsim.analysis._arrays import check_trials, unique_labels
from popsim.analysis.neural_activity import average_by_factors, chance_level, decode_condition, tuning_curves

EIGHT = np.arange(8) * np.pi / 4
ROUNDED = np.concatenate([EIGHT, EIGHT.astype(np.float32)])  # each direction twice


def test_whole_numbers_and_names_are_told_apart_exactly():
    found, which = unique_labels(np.array(["b", "a", "b"]))
    assert found.tolist() == ["a", "b"] and which.tolist() == [1, 0, 1]
    found, which = unique_labels(np.array([10**9, 10**9 + 1, -3]))
    assert found.tolist() == [-3, 10**9, 10**9 + 1] and which.tolist() == [1, 2, 0]


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


def test_a_decoder_has_the_trials_of_rounded_directions_as_one_condition():
    pytest.importorskip("sklearn")
    activity = np.tile(np.stack([np.cos(EIGHT), np.sin(EIGHT)], 1), (2, 1))[None, :, None]
    assert decode_condition(activity, ROUNDED, n_folds=2, key=jax.random.key(0)) == [[1.0]]


def test_one_value_for_each_trial():
    check_trials("condition", np.zeros(4), 4)
    with pytest.raises(ValueError, match="`condition` must have one value for each of 4 trials"):
        check_trials("condition", np.zeros((4, 1)), 4)
