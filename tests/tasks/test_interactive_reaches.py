"""Reaches to which the task answers: what they show, record and pay for movements that are prescribed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import HandState, tasks
from popsim.interaction import respond, start_interaction

KEY = jax.random.key(0)
WORKSPACE = popsim.plants.PointMass().workspace
CENTER = np.asarray(WORKSPACE.center)


def played(trial, positions):
    """The interaction of a trial with a hand at some positions, one for each time step."""
    positions = jnp.asarray(positions)
    hands = HandState(positions, jnp.zeros_like(positions))
    first = jax.tree.map(lambda leaf: leaf[0], hands)

    def step(interaction, hand):
        interaction = respond(trial.environment, interaction, hand, key=KEY)
        return interaction, interaction

    start = start_interaction(trial.environment, first, None, key=KEY)
    return jax.tree.map(np.asarray, jax.lax.scan(step, start, hands)[1])


def still(n_steps):
    return np.tile(CENTER, (n_steps, 1))


@pytest.fixture(scope="module")
def held():
    task = tasks.HeldReach(WORKSPACE, hold=0.2)
    return jax.tree.map(lambda leaf: leaf[0], task.validation_trials())


def test_the_go_cue_comes_after_the_hold_and_moves_the_target(held):
    target = np.asarray(held.inputs["target"])[0]
    positions = still(150)
    positions[60:] = target
    interaction = played(held, positions)
    goes = interaction.record["go cue"]
    assert goes.argmax() == 20  # after the twentieth step, which completes .2 s
    np.testing.assert_array_equal(interaction.received["go cue"][:, 0], goes)  # as the network is told
    expected = np.where(goes[:, None], target, CENTER)
    np.testing.assert_allclose(interaction.record["target"].position, expected, atol=1e-6)
    assert np.flatnonzero(interaction.reward).tolist() == [60] and interaction.reward[60] == 1
    assert interaction.active.all() and held.timeline.events["earliest go cue"] == 20


def test_a_hold_that_leaves_one_time_step_is_accepted():
    task = tasks.HeldReach(WORKSPACE, hold=1.49)  # above 1.49 in single precision
    assert np.all(task.validation_trials().timeline.events["earliest go cue"] == task.n_steps - 1)


def test_who_leaves_early_is_punished_once_and_holds_anew(held):
    positions = still(150)
    positions[10:30] += 0.05
    interaction = played(held, positions)
    assert np.flatnonzero(interaction.record["leaves early"]).tolist() == [10]
    assert np.flatnonzero(interaction.reward).tolist() == [10] and interaction.reward[10] == -1
    assert interaction.record["go cue"].argmax() == 30 + 20


def test_a_caught_target_ends_the_trial():
    trials = tasks.Interception(WORKSPACE).validation_trials()
    trial = jax.tree.map(lambda leaf: leaf[-1], trials)
    path = np.asarray(trial.targets.position)
    velocity = np.asarray(trial.targets.velocity)[0]
    assert velocity[0] > 0 and bool(trial.conditions["from left"])
    np.testing.assert_allclose(np.diff(path, axis=0), np.tile(0.01 * velocity, (99, 1)), atol=1e-6)
    np.testing.assert_allclose(path[49], CENTER + [0.0, 0.08], atol=1e-6)  # at .5 s
    waiting = np.tile(CENTER + [0.0, 0.08], (100, 1))
    interaction = played(trial, waiting)
    caught = np.flatnonzero(interaction.reward)
    near = np.flatnonzero(np.linalg.norm(path - waiting, axis=1) < 0.01)
    assert caught.tolist() == [near[0]] and interaction.active.sum() == near[0] + 1
    np.testing.assert_allclose(interaction.record["target"].position[: near[0]], path[: near[0]], atol=1e-6)
    np.testing.assert_allclose(interaction.received["target"][1 : near[0]], path[: near[0] - 1], atol=1e-6)
    missed = played(trial, still(100))
    assert not missed.reward.any() and missed.active.all()


@pytest.mark.full
def test_the_right_target_is_shown_when_the_hand_has_left():
    trials = tasks.GoBeforeYouKnow(WORKSPACE).validation_trials()
    trial = jax.tree.map(lambda leaf: leaf[1], trials)
    right, wrong = (np.asarray(trial.inputs[f"target {i}"])[0] for i in (2, 1))
    np.testing.assert_allclose(np.asarray(trial.targets.position)[0], right, atol=1e-6)
    angle = np.arctan2(*(right - CENTER)[::-1]) - np.arctan2(*(wrong - CENTER)[::-1])
    np.testing.assert_allclose(abs(angle), 1.0, atol=1e-5)
    positions = still(120)
    positions[30:] = CENTER + [0.03, 0.0]
    positions[60:] = wrong
    positions[90:] = right
    interaction = played(trial, positions)
    shown = interaction.received["right target"]
    assert not shown[:31].any() and np.all(shown[31:] == [0, 1])
    assert interaction.record["is revealed"].argmax() == 30
    assert np.flatnonzero(interaction.reward).tolist() == [90]
