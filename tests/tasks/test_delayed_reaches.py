import jax.numpy as jnp
import numpy as np
import pytest
from motor_trials import (
    CENTER,
    WORKSPACE,
    assert_share,
    assert_uniform,
    loss_of_hand,
    many_trials,
    one_of,
    validation,
)

import popsim
from popsim.distributions import Uniform
from popsim.tasks import DelayedReaches

TASK = DelayedReaches(WORKSPACE, distance=Uniform(0.05, 0.1), catch_probability=0.2)


def test_what_is_shown_and_asked_for_changes_at_the_cues():
    task = DelayedReaches(WORKSPACE, hold=0.02, delay=0.03, duration=0.1, n_directions=4)
    trial = one_of(validation(task), 1)
    target = CENTER + [0.0, 0.1]
    np.testing.assert_array_equal(trial.inputs["target shown"][:, 0], [0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(trial.inputs["go cue"][:, 0], [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    for positions, first in ((trial.inputs["target"], 2), (trial.targets.position, 5)):
        expected = np.where(np.arange(10)[:, None] >= first, target, CENTER)
        np.testing.assert_allclose(positions, expected, atol=1e-6)
    np.testing.assert_allclose(trial.init.position, CENTER, rtol=1e-6)
    np.testing.assert_array_equal(trial.targets.velocity, 0.0)
    steps = {name: epoch.tolist() for name, epoch in trial.timeline.epochs.items()}
    assert steps == {"hold": [0, 2], "delay": [2, 5], "movement": [5, 10]}


def test_times_distances_directions_and_catch_trials_are_drawn_as_they_say(getkey):
    trials = many_trials(TASK, getkey())
    catch = np.asarray(trials.conditions["catch"])
    assert_share(catch, 0.2)
    events, goes = trials.timeline.events, ~catch
    delay = 0.01 * np.asarray(events["go cue"] - events["target on"])[goes]
    assert_uniform(delay, 0.195, 0.605)
    assert_uniform(trials.conditions["distance"], 0.05, 0.1)
    eighths = np.asarray(trials.conditions["direction"]) / (np.pi / 4)
    np.testing.assert_allclose(np.bincount(np.round(eighths).astype(int) + 3, minlength=8), 250, atol=75)
    way = np.asarray(trials.targets.position[:, -1])[goes] - CENTER
    np.testing.assert_allclose(np.linalg.norm(way, axis=1), trials.conditions["distance"][goes], rtol=1e-4)
    np.testing.assert_allclose(np.exp(1j * eighths[goes] * np.pi / 4), _unit(way), atol=1e-4)


def _unit(way):
    return (way[:, 0] + 1j * way[:, 1]) / np.linalg.norm(way, axis=1)


def test_a_catch_trial_shows_the_target_and_lets_the_hand_stay(getkey):
    task = DelayedReaches(WORKSPACE, catch_probability=1.0)
    trial = task.trial(batch=0, key=getkey())
    assert trial.inputs["go cue"].max() == 0
    assert trial.inputs["target shown"][10:].min() == 1
    assert float(jnp.linalg.norm(trial.inputs["target"][-1] - CENTER)) == pytest.approx(0.1, rel=1e-4)
    np.testing.assert_allclose(trial.targets.position, np.tile(CENTER, (150, 1)), rtol=1e-6)
    assert trial.timeline.epochs["movement"].tolist() == [150, 150]
    assert int(trial.timeline.events["go cue"]) == popsim.NEVER
    stays = loss_of_hand(task, trial, trial.targets.position)
    goes = loss_of_hand(task, trial, trial.inputs["target"])
    assert max(stays.values()) == 0
    assert goes == {**stays, "hold": pytest.approx(140 * 0.1**2, rel=1e-4)}


def test_the_loss_counts_from_the_go_cue_and_holds_before():
    task = DelayedReaches(WORKSPACE, hold=0.1, delay=0.4)
    trial = one_of(validation(task), 0)
    assert max(loss_of_hand(task, trial, trial.targets.position).values()) == 0
    center, target = trial.targets.position[0], trial.targets.position[-1]
    stays = loss_of_hand(task, trial, jnp.tile(center, (150, 1)))
    late = np.sum((np.arange(1, 101) / 100) ** 6) * 0.1**2
    assert stays["position error"] == pytest.approx(late, rel=1e-4)
    assert stays["hold"] == 0
    leaves = loss_of_hand(task, trial, jnp.tile(target, (150, 1)))
    assert leaves["position error"] == 0
    assert leaves["hold"] == pytest.approx(50 * 0.1**2, rel=1e-4)


@pytest.mark.parametrize("n_directions, expected", [(8, 8), (3, 3), (None, 8)])
def test_validation_has_every_direction_with_typical_times(n_directions, expected):
    trials = validation(DelayedReaches(WORKSPACE, n_directions=n_directions))
    np.testing.assert_allclose(
        np.exp(1j * np.asarray(trials.conditions["direction"])),
        np.exp(2j * np.pi * np.arange(expected) / expected),
        atol=1e-6,
    )
    assert not np.any(trials.conditions["catch"])
    assert set(trials.timeline.events["go cue"].tolist()) == {50}
