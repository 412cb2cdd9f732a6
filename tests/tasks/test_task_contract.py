"""What every task of the library promises: keys decide, validation is fixed, targets say what is right."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest
from short_form import every_nth

import popsim
from popsim import tasks
from popsim.tasks.library import TASKS

BEST = {
    "bandit": lambda task: tasks.ThompsonSampling(task.n_arms),
    "drifting-bandit": tasks.KalmanBandit,
    "reversal-learning": lambda task: tasks.ReversalObserver(reward_probability=0.8, hazard_rate=0.05),
    "two-step": tasks.TwoStepObserver,
    "changing-environment": tasks.ChangingEnvironmentObserver,
    "staircase": lambda task: tasks.StaircaseObserver(),
    "reaction-time-decision": lambda task: tasks.DecisionBounds(np.full(38, 0.1), dt=task.dt),
    "reaction-time-clicks": lambda task: tasks.ClickBounds(np.full((38, 200), 3.0)),
    "post-decision-wager": tasks.WagerObserver,
}


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
def test_a_task_can_be_changed_by_replace(name):
    task = TASKS[name]()
    names = [field.name for field in dataclasses.fields(task) if field.name == "loss"] or ["task"]
    changed = 2.0 * task.loss if names == ["loss"] else task.task
    replaced = dataclasses.replace(task, **{names[0]: changed})
    assert eqx.tree_equal(getattr(replaced, names[0]), changed)
    assert eqx.tree_equal(eqx.tree_at(lambda task: getattr(task, names[0]), task, changed), replaced)


N_VALIDATION = {"context-integration": 128, "interval-discrimination": 24, "obstacle-avoidance": 32}


def test_validation_has_all_combinations_of_conditions():
    for name, n_trials in N_VALIDATION.items():
        conditions = jax.tree.map(np.asarray, TASKS[name]().validation_trials().conditions)
        rows = np.concatenate([labels.reshape(n_trials, -1) for labels in conditions.values()], axis=1)
        assert len(np.unique(rows.astype(float).round(4), axis=0)) == n_trials, name


@pytest.mark.parametrize("name", every_nth(BEST, 4))
def test_the_best_player_is_paid_more_than_chance(name):
    task = TASKS[name]()
    trials = popsim.sample_trials(task, 100, batch=0, key=jax.random.key(1))
    players = BEST[name](task), tasks.RandomPlayer(trials.environment.actions.n)
    best, chance = (
        np.asarray(tasks.play(player, trials, key=jax.random.key(2)).reward).sum(axis=1).astype(float)
        for player in players
    )
    assert best.mean() > chance.mean() + 2 * (best.std() + chance.std()) / 10
