import itertools

import jax
import numpy as np
import pytest
from small_tasks import Choose
from small_training import KEY, RunningSum, train

import popsim
from popsim.training import supervised_batches


def first(task, n=1, **settings):
    return list(itertools.islice(supervised_batches(task, 5, key=jax.random.key(1), **settings), n))


def test_time_comes_first_then_the_trials():
    inputs, targets, mask = first(Choose())[0]
    assert (inputs.shape, targets.shape, mask.shape) == ((20, 5, 3), (20, 5, 1), (20, 5))
    assert all(type(array) is np.ndarray and array.dtype == np.float32 for array in (inputs, targets, mask))
    go, stimulus = inputs[:, :, 0], inputs[:, :, 2]  # by name: the cues, the stimulus
    np.testing.assert_array_equal(targets[:, :, 0], np.sign(stimulus.sum(axis=0)) * go)
    np.testing.assert_array_equal(mask, np.where(stimulus != 0, 0.5, 1.0))


def test_a_reach_asks_for_position_and_velocity():
    task = popsim.tasks.RandomReaches(popsim.plants.PointMass().workspace, duration=0.1)
    inputs, targets, mask = first(task)[0]
    assert targets.shape == (10, 5, 4) and (mask == 1).all()
    np.testing.assert_array_equal(targets[:, :, :2], inputs)
    assert not targets[:, :, 2:].any()


def test_batches_differ_come_again_and_can_be_written_to():
    one, two = first(Choose(), 2)
    assert not np.array_equal(one[0], two[0])
    (again,) = first(Choose(), start_batch=1)
    np.testing.assert_array_equal(again[0], two[0])
    one[0][:] = 7.0
    assert not np.array_equal(first(Choose())[0][0], one[0])


@pytest.mark.slow
def test_they_are_the_trials_of_a_training():
    _, history = train(2, n_members=0, save_trial_specs=[1])
    inputs, targets, _ = next(supervised_batches(RunningSum(), 4, start_batch=1, key=KEY))
    trials = history.trial_specs[1]
    np.testing.assert_array_equal(inputs, np.swapaxes(trials.inputs, 0, 1))
    np.testing.assert_allclose(targets, np.swapaxes(trials.targets, 0, 1), rtol=1e-6)


def test_bad_arguments_are_refused_at_once():
    for settings, named in (({"batch_size": 0}, "batch_size"), ({"start_batch": -1}, "start_batch")):
        with pytest.raises(ValueError, match=named):
            supervised_batches(Choose(), **{"batch_size": 2, "key": KEY, **settings})
