"""The observer of reversals against an exact filter and other rates; and switches."""

import numpy as np
import pytest

reversal = pytest.importorskip("references.reversal", reason="examples/ is not beside the tests")


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
