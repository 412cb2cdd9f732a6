"""What all cognitive tasks have in common."""

import jax
import numpy as np
import pytest
from short_form import every_nth

import popsim
from popsim.experiments import Cognitive
from popsim.tasks import COGNITIVE_TASKS


@pytest.fixture(params=every_nth(COGNITIVE_TASKS, 12), scope="module")
def drawn(request):
    """A task, what draws its trials from keys and a number of the batch, 50 keys and their trials."""
    task = COGNITIVE_TASKS[request.param]()
    draw = jax.jit(lambda keys, batch: jax.vmap(lambda key: task.trial(batch=batch, key=key))(keys))
    keys = jax.random.split(jax.random.key(5678), 50)
    return task, draw, keys, draw(keys, 0)


def test_the_key_alone_decides_a_trial(drawn):
    _, draw, keys, trials = drawn
    jax.tree.map(np.testing.assert_array_equal, trials, draw(keys, 7))
    backwards = jax.tree.map(lambda leaf: leaf[::-1], draw(keys[::-1], 0))
    jax.tree.map(np.testing.assert_array_equal, trials, backwards)
    inputs = np.concatenate([leaf[:6].reshape(6, -1) for leaf in jax.tree.leaves(trials.inputs)], axis=1)
    assert len(np.unique(inputs, axis=0)) == 6


def test_validation_trials_are_like_those_of_training_always_the_same_and_finite(drawn):
    task, _, _, trials = drawn
    validation = task.validation_trials()

    def outline(trials):
        return jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), trials)

    assert outline(trials) == outline(validation)
    jax.tree.map(np.testing.assert_array_equal, validation, task.validation_trials())
    assert trials.timeline.dt == validation.timeline.dt
    for own in (trials, validation):
        assert np.all(np.isfinite(own.targets.values)) and np.all(own.targets.counts >= 0)
        assert np.all(own.targets.counts.sum(axis=1) > 0)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(own.inputs))


@pytest.mark.parametrize("name", every_nth(COGNITIVE_TASKS, 12))
def test_the_networks_take_the_tasks(name):
    """Of each task one network, which is traced and not compiled."""
    network = ("gru", "tanh")[list(COGNITIVE_TASKS).index(name) % 2]
    trials, losses = losses_of(name, network, trace=True)
    assert losses.shape == (2, trials)


@pytest.mark.slow
@pytest.mark.full  # in short: test_the_networks_take_the_tasks
@pytest.mark.parametrize("network", ["gru", "tanh"])
@pytest.mark.parametrize("name", COGNITIVE_TASKS)
def test_every_network_takes_every_task(name, network):
    trials, losses = losses_of(name, network)
    assert losses.shape == (2, trials)
    assert np.all(np.isfinite(losses)) and np.all(losses > 0)


def losses_of(name, network, *, trace=False):
    """The number of validation trials, and the loss of each member in them."""
    experiment = Cognitive(task=name, network=network, n_members=2, n_units=4)
    task = experiment.build_task()

    def evaluated():
        ensemble, key = experiment.build_ensemble(), experiment.key("evaluation")
        return popsim.evaluate_ensemble(ensemble, task, key=key).losses.total

    losses = jax.eval_shape(evaluated) if trace else evaluated()
    return popsim.trial.n_trials(task.validation_trials()), losses
