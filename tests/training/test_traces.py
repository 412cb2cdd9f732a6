"""How often a training traces what the user wrote: once to check it, and once for each program."""

import collections

import jax
import pytest
from short_form import mostly_in_full
from small_training import OPTIMIZER, RunningSum, squared_error, train

import popsim
from popsim.training import TaskTrainer

pytestmark = pytest.mark.slow

CALLS = collections.Counter()


class Network(popsim.networks.LeakyRNN):
    def step(self, inputs, hidden, *, key):
        CALLS["network"] += 1
        return super().step(inputs, hidden, key=key)


class Model(popsim.NetworkModel):
    def step(self, step_input, state, *, key):
        CALLS["model"] += 1
        return super().step(step_input, state, key=key)


class Task(RunningSum):
    def trial(self, *, batch, key):
        CALLS["trial"] += 1
        return super().trial(batch=batch, key=key)


def error(states, trial, model):
    CALLS["loss"] += 1
    return squared_error(states, trial, model)


def build(key):
    return Model(Network(1, 3, 1, tau=0.05, noise_std=0.1, key=key), dt=0.01)


@pytest.mark.parametrize("in_folder", mostly_in_full([False, True], [False]))
def test_a_training_traces_a_model_twice_before_it_compiles(in_folder, tmp_path):
    """By its network alone and in a batch; then in programs, and in the texts by which it is resumed."""
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path if in_folder else None)
    ensemble = popsim.make_ensemble(build, 2 + in_folder, key=jax.random.key(0))
    task, planned = Task(1.0 * popsim.FunctionTerm("error", error)), collections.Counter()
    CALLS.clear()
    given = {"n_members": 2, "ensemble": ensemble, "task": task}
    train(2, trainer=trainer, on_begin=lambda _: planned.update(CALLS), **given)
    assert planned["model"] <= 1 and planned["network"] <= 2 and planned["loss"] == 1
    assert planned["trial"] <= 4  # the first batch, twice to see that its key is used, and for validation
    assert CALLS["network"] <= 2 and CALLS["loss"] <= 3 + 2 * in_folder
    train(2, **given)
    assert CALLS["network"] <= 2
