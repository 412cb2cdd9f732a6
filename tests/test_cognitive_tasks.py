"""What all cognitive tasks have in common."""

import jax
import numpy as np
import pytest
from drawn_trials import many_trials

import popsim
from popsim.experiments import Cognitive
from popsim.tasks import COGNITIVE_TASKS


@pytest.fixture(params=COGNITIVE_TASKS)
def task(request):
    return COGNITIVE_TASKS[request.param]()


def test_the_key_alone_decides_a_trial(task, getkey):
    keys = jax.random.split(getkey(), 6)
    draw = jax.jit(lambda keys, batch: jax.vmap(lambda key: task.trial(batch=batch, key=key))(keys))
    six, later, two = draw(keys, 0), draw(keys, 7), draw(keys[2:4], 0)
    jax.tree.map(np.testing.assert_array_equal, six, later)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda leaf: leaf[2:4], six), two)
    inputs = np.concatenate([leaf.reshape(6, -1) for leaf in jax.tree.leaves(six.inputs)], axis=1)
    assert len(np.unique(inputs, axis=0)) == 6


def test_validation_trials_are_like_those_of_training_and_always_the_same(task, getkey):
    drawn = many_trials(task, getkey(), 3)
    validation = task.validation_trials()

    def outline(trials):
        return jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), trials)

    assert outline(drawn) == outline(validation)
    jax.tree.map(np.testing.assert_array_equal, validation, task.validation_trials())
    assert drawn.timeline.dt == validation.timeline.dt


def test_targets_and_conditions_are_finite_and_something_counts(task, getkey):
    for trials in (many_trials(task, getkey(), 50), jax.tree.map(np.asarray, task.validation_trials())):
        assert np.all(np.isfinite(trials.targets.values)) and np.all(trials.targets.counts >= 0)
        assert np.all(trials.targets.counts.sum(axis=1) > 0)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(trials.inputs))


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "tanh"])
@pytest.mark.parametrize("name", COGNITIVE_TASKS)
def test_every_cell_takes_every_task(name, cell):
    experiment = Cognitive(task=name, cell=cell, n_members=2, n_units=4)
    task = experiment.build_task()
    losses = popsim.evaluate_ensemble(
        experiment.build_ensemble(), task, key=experiment.key("evaluation")
    ).losses
    assert losses.total.shape == (2, popsim.trial.n_trials(task.validation_trials()))
    assert np.all(np.isfinite(losses.total)) and np.all(losses.total > 0)
