"""What must not change what is computed: how calls are cut, what is recorded, how many members there are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import mostly_in_full
from small_training import KEY, OPTIMIZER, RunningSum, assert_same, build, member_of, network, train

import popsim
from popsim.training import TaskTrainer
from popsim.training.loop.batch_loop import BatchLoop, members_at_a_time
from popsim.training.steps.member_step import MemberStep
from popsim.training.steps.train_state import TrainState

pytestmark = pytest.mark.slow

N_BATCHES = 100


def run_in_calls(counts, capacity=128):
    """The compiled loop by itself, called with these numbers of batches."""
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    step = MemberStep(RunningSum(), batch_size=4)
    state = TrainState.initial_ensemble(ensemble, OPTIMIZER, KEY.copy(), where_train=network)
    carry = jax.vmap(lambda _: step.initial_carry(None, None, key=jax.random.key(0)))(jnp.arange(2))
    state = dataclasses.replace(state, loss_fn_state=carry)
    loop, losses = BatchLoop(step, jnp.arange(2), capacity=capacity), []
    for count in counts:
        state, buffers = loop(state, count)
        losses.append(np.asarray(buffers.records.loss.total[:count]))
    return state.model, np.concatenate(losses)


@pytest.mark.full
@pytest.mark.parametrize("length", [1, 7, 64])
def test_the_length_of_calls_changes_no_bit(length):
    whole, losses = run_in_calls([N_BATCHES])
    counts = [length] * (N_BATCHES // length) + [N_BATCHES % length] * (N_BATCHES % length > 0)
    model, own = run_in_calls(counts)
    assert_same(model, whole)
    np.testing.assert_array_equal(own, losses)


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        {"log_step": 3, "save_model_trainables": True, "save_trial_specs": [1], "disable_tqdm": False},
        {"save_model_trainables": np.array([0, 5, 17])},
        {"batch_callbacks": {7: [lambda: None]}},
    ],
    ids=lambda options: " and ".join(options),
)
def test_logging_and_recording_change_no_bit(options):
    plain, history = train(20)
    model, own = train(20, **options)
    assert_same(model, plain)
    np.testing.assert_array_equal(own.loss.total, history.loss.total)


@pytest.mark.parametrize("width", mostly_in_full([8, 64], short=[8]))
def test_a_member_does_not_depend_on_how_many_there_are(width):
    """Draws to the bit, parameters within 1e-5 after 100 batches."""
    many, history = train(N_BATCHES, n_members=width, save_trial_specs=[N_BATCHES - 1])
    index = width - 1
    ensemble = popsim.make_ensemble(build, width, key=jax.random.key(0))
    alone, own = train(
        N_BATCHES,
        n_members=0,
        ensemble=popsim.member(ensemble, index),
        members=popsim.member_grid(width).select(index),
        save_trial_specs=[N_BATCHES - 1],
    )
    drawn = history.trial_specs[N_BATCHES - 1].inputs[index]
    np.testing.assert_array_equal(own.trial_specs[N_BATCHES - 1].inputs, drawn)
    assert_same(alone, member_of(many, index), rtol=0, atol=1e-5)


@pytest.mark.full
def test_blocks_of_members_change_only_rounding():
    options = {"n_members": 8, "save_trial_specs": [9]}  # as above, where the program is compiled
    trainer = TaskTrainer(OPTIMIZER, member_batch_size=3)
    blocks, own = train(10, trainer=trainer, **options)
    whole, history = train(10, **options)
    assert_same(blocks, whole, rtol=0, atol=1e-6)
    np.testing.assert_allclose(own.loss.total, history.loss.total, rtol=1e-5)


REFERENCE = {"weight_bytes": 72_016, "state_bytes": 18_432}


@pytest.mark.parametrize(
    ("n_members", "sizes", "expected"),
    [(n, REFERENCE, expected) for n, expected in [(64, 4), (16, 4), (2, 2), (7, 7), (9, 3), (11, 5), (1, 1)]]
    + [(8, {"weight_bytes": 10**7, "state_bytes": 0}, 1)]
    + [(64, {"weight_bytes": 1360, "state_bytes": 104}, 64)],
)
def test_blocks_of_members_fit_the_cache(n_members, sizes, expected):
    assert members_at_a_time(n_members, **sizes) == expected
