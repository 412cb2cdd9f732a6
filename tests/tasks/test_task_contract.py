"""What every task of the library promises: keys decide, validation is fixed, targets say what is right."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth

import popsim
from popsim.tasks.library import TASKS


@pytest.fixture(params=every_nth(TASKS, 12), scope="module")
def drawn(request):
    """A task, what draws its trials from keys, 20 keys and their trials."""
    task = TASKS[request.param]()
    draw = jax.jit(lambda keys: jax.vmap(lambda key: task.trial(batch=200, key=key))(keys))
    keys = jax.random.split(jax.random.key(5678), 20)
    return task, draw, keys, draw(keys)


def test_the_key_alone_decides_a_trial_under_jit_and_outside(drawn):
    task, draw, keys, trials = drawn
    jax.tree.map(np.testing.assert_array_equal, trials, draw(keys))
    backwards = jax.tree.map(lambda leaf: leaf[::-1], draw(keys[::-1]))
    jax.tree.map(np.testing.assert_array_equal, trials, backwards)
    alone, first = task.trial(batch=200, key=keys[0]), jax.tree.map(lambda leaf: leaf[0], trials)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5), alone, first
    )
    if inputs := [np.asarray(leaf).reshape(20, -1) for leaf in jax.tree.leaves(trials.inputs)]:
        assert len(np.unique(np.concatenate(inputs, axis=1), axis=0)) > 3


def test_validation_trials_are_like_those_of_training_always_the_same_and_finite(drawn):
    task, _, _, trials = drawn
    validation = task.validation_trials()
    jax.tree.map(np.testing.assert_array_equal, validation, task.validation_trials())
    outlines = [jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), of) for of in (trials, validation)]
    assert outlines[0] == outlines[1] and validation.conditions
    for of in (trials, validation):
        for leaf in jax.tree.leaves((of.init, of.inputs, of.targets)):
            assert np.all(np.isfinite(leaf))
        if isinstance(of.targets, popsim.OutputTarget):
            counts = np.asarray(of.targets.counts)
            assert np.all(counts >= 0) and np.all(counts.reshape(len(counts), -1).sum(axis=1) > 0)
            if of.targets.is_choice and "catch" in of.conditions and of.conditions["choice"].ndim == 1:
                right = np.where(of.conditions["catch"], -1, of.conditions["choice"])
                np.testing.assert_array_equal(popsim.correct_choice(of.targets), right)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_can_be_changed_by_replace_and_members_may_have_numbers_of_their_own(name):
    task = TASKS[name]()
    fields = {field.name: field for field in dataclasses.fields(task) if not field.metadata.get("static")}
    if fields.pop("loss", None):
        louder = dataclasses.replace(task, loss=2.0 * task.loss)
        assert eqx.tree_equal(eqx.tree_at(lambda own: own.loss, task, 2.0 * task.loss), louder)
    for name in [name for name in fields if "check" in fields[name].metadata and name != "workspace"]:
        twice = jax.tree.map(lambda leaf: popsim.PerMember(jnp.stack([leaf, leaf])), getattr(task, name))
        of_members = dataclasses.replace(task, **{name: twice})
        assert eqx.tree_equal(popsim.select_member(of_members, 1), task), name


N_VALIDATION = {"context-integration": 128, "interval-discrimination": 24, "perceptual-decision": 10}
N_VALIDATION |= {"delayed-match-to-category": 144, "delayed-comparison": 10, "delayed-response": 16}


def test_validation_has_all_combinations_of_conditions():
    conditions = {name: TASKS[name]().nominal() for name in N_VALIDATION}
    obstacles = TASKS["obstacle-avoidance"]().validation_trials().conditions
    conditions["obstacle-avoidance"] = tuple(obstacles.values())
    for name, n_trials in {**N_VALIDATION, "obstacle-avoidance": 32}.items():
        columns = [np.asarray(labels, float).reshape(n_trials, -1) for labels in conditions[name]]
        assert len(np.unique(np.concatenate(columns, axis=1).round(4), axis=0)) == n_trials, name
