"""The task of recall, what can be answered without keys, and the gates of errors."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import fast_weights
import popsim


def test_the_best_answer_without_keys_is_the_most_frequent_value():
    # Of 10^4 quadruples 5040 have four values, 4320 one pair, 270 two pairs, 360 a triple and 10 a quadruple.
    most = (5040 * 1 + 4320 * 2 + 270 * 2 + 360 * 3 + 10 * 4) / 10**4
    assert fast_weights.error_without_keys() == pytest.approx(1 - most / 4)


def test_a_trial_shows_pairs_and_asks_for_the_value_of_one():
    keys, values = jnp.array([3, 0, 7, 5]), jnp.array([2, 9, 2, 4])
    trial = fast_weights.Recall().trial_of(keys, values, jnp.array(1))
    shown = [np.flatnonzero(symbols).tolist() for symbols in trial.inputs["symbols"]]
    assert shown == [[3, 12], [0, 19], [7, 12], [5, 14], [0], [], [], []]
    assert int(popsim.trial.correct_choice(trial.targets)) == 9
    assert trial.targets.counts.tolist() == [0] * 7 + [1]


def test_who_loses_one_pair_is_wrong_as_often_as_computed_and_does_not_pass():
    recalls = fast_weights.without_one_pair(fast_weights.Recall().validation_trials(), 0)
    error = fast_weights.error_without_one_pair()
    assert recalls.is_wrong.mean() == pytest.approx(error, abs=0.02)
    gate = fast_weights.LARGEST_RATIO * error
    for wrong, passes in ((recalls, False), (dataclasses.replace(recalls, is_wrong=np.zeros((1, 4))), True)):
        assert [row.passed for row in fast_weights.error_rows("", wrong, gate)] == [passes]
