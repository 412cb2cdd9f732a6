import jax
import numpy as np
from conftest import small_reach_setup

import popsim
from popsim.randomness import trial_keys
from popsim.training import training_trials


def bits(keys):
    return np.asarray(jax.random.key_data(keys))


def n_different(*keys):
    return len(np.unique(np.concatenate([bits(k).reshape(-1, 2) for k in keys]), axis=0))


def test_streams_of_different_names_differ_and_of_one_name_agree(getkey):
    key, other = getkey(), getkey()
    streams = [popsim.key_stream(k, name) for k in (key, other) for name in ("start", "target", "network")]
    assert n_different(*streams) == 6
    np.testing.assert_array_equal(bits(popsim.key_stream(key, "start")), bits(streams[0]))


def test_trial_keys_do_not_depend_on_the_number_of_trials(getkey):
    key = getkey()
    few, many = trial_keys(key, 3, member_id=1), trial_keys(key, 10, member_id=1)
    np.testing.assert_array_equal(bits(few), bits(many)[:3])


def test_members_and_trials_and_shared_trials_have_keys_of_their_own(getkey):
    key = getkey()
    assert n_different(*(trial_keys(key, 10, member_id=member) for member in (None, 0, 1, 2))) == 40


def test_training_trials_do_not_depend_on_the_size_of_the_batch(getkey):
    task, _ = small_reach_setup()
    key = getkey()
    few, many = (training_trials(task, size, batch=0, member_id=2, key=key) for size in (3, 7))
    other = training_trials(task, 3, batch=0, member_id=1, key=key)
    np.testing.assert_array_equal(few.init.position, many.init.position[:3])
    assert not np.any(few.init.position == other.init.position)
    assert len(np.unique(np.concatenate([many.init.position, many.targets.position[:, 0]]))) == 28
