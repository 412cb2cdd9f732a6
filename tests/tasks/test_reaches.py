"""Reaches and held postures: what is drawn, what is shown and asked for when, and how it is labelled."""

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
from popsim.tasks import DelayedReaches, PosturalHold, SequentialReaches, TargetJump

DELAYED = DelayedReaches(WORKSPACE, distance=Uniform(0.05, 0.1), catch_probability=0.2)


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
    trials = many_trials(DELAYED, getkey())
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


THREE = SequentialReaches(WORKSPACE, n_targets=3, reach=Uniform(0.3, 0.5), duration=2.0)


def test_each_target_is_due_from_its_own_go_cue_on(getkey):
    trials = many_trials(THREE, getkey())
    assert_share(trials.conditions["catch"], 0.1)
    goes = ~np.asarray(trials.conditions["catch"])
    cues = np.stack([trials.timeline.events[f"go cue {i}"] for i in (1, 2, 3)], axis=1)
    assert_uniform(0.01 * cues[goes, 0], 0.095, 0.305)
    assert_uniform(0.01 * np.diff(cues[goes]), 0.295, 0.505)
    due = np.arange(200)[:, None] >= cues[:, None, :]
    np.testing.assert_array_equal(trials.inputs["go cue"], due)
    places = np.stack(
        [trials.init.position, *(trials.inputs[f"target {i}"][:, 0] for i in (1, 2, 3))], axis=1
    )
    expected = np.take_along_axis(places, due.sum(-1)[..., None], axis=1)
    np.testing.assert_array_equal(trials.targets.position, expected)
    np.testing.assert_array_equal(trials.targets.velocity, 0.0)


def test_start_and_targets_are_anywhere_in_the_workspace(getkey):
    trials = many_trials(THREE, getkey())
    targets = [trials.inputs[f"target {i}"] for i in (1, 2, 3)]
    for shown in targets:
        np.testing.assert_array_equal(np.ptp(shown, axis=1), 0.0)
    places = np.concatenate([trials.init.position, *(shown[:, 0] for shown in targets)], axis=1)
    assert_uniform(places, np.tile([-0.1, 0.3], 4), np.tile([0.2, 0.5], 4))
    np.testing.assert_allclose(np.corrcoef(places.T), np.eye(8), atol=5 / 2000**0.5)
    ways = np.diff(places.reshape(-1, 4, 2), axis=1)
    for i in range(3):
        direction = np.arctan2(ways[:, i, 1], ways[:, i, 0])
        np.testing.assert_allclose(trials.conditions[f"direction {i + 1}"], direction, atol=1e-3)


def test_validation_turns_left_and_right_after_each_first_direction():
    trials = validation(SequentialReaches(WORKSPACE, n_targets=3, duration=2.0))
    places = [np.asarray(trials.inputs[f"target {i}"])[:, 0] - CENTER for i in (1, 2, 3)]
    turning = [complex(0, 1), complex(0, -1)]
    for trial in range(16):
        first = 0.08 * np.exp(1j * (trial // 2) * np.pi / 4)
        for i, place in enumerate(places):
            expected = first * turning[trial % 2] ** i
            np.testing.assert_allclose(place[trial], [expected.real, expected.imag], atol=1e-6)
    np.testing.assert_allclose(trials.init.position, np.tile(CENTER, (16, 1)), rtol=1e-6)
    assert not np.any(trials.conditions["catch"])


JUMPS = TargetJump(WORKSPACE, jump_probability=0.3, displacement=Uniform([-0.01, -0.04], [0.02, 0.04]))


def _frame(direction):
    """Unit vectors along a reach and to its left: (trial, space) each."""
    along = np.stack([np.cos(direction), np.sin(direction)], axis=1)
    return along, np.stack([-along[:, 1], along[:, 0]], axis=1)


def _expected(conditions):
    """The first and the second target of trials of 10 cm."""
    along, left = _frame(np.asarray(conditions["direction"]))
    first = CENTER + 0.1 * along
    moved = np.asarray(conditions["jump along"])[:, None] * along
    return first, first + moved + np.asarray(conditions["jump left"])[:, None] * left


def test_targets_jump_in_their_share_of_trials_when_and_where_they_say(getkey):
    trials = many_trials(JUMPS, getkey())
    jumps = np.asarray(trials.conditions["jump"])
    assert_share(jumps, 0.3)
    times = np.asarray(trials.timeline.events["target jump"])
    assert_uniform(0.01 * times[jumps], 0.095, 0.405)
    assert_uniform(np.asarray(trials.conditions["jump along"])[jumps], -0.01, 0.02)
    assert_uniform(np.asarray(trials.conditions["jump left"])[jumps], -0.04, 0.04)
    assert set(times[~jumps]) == {popsim.NEVER}
    assert not any(np.any(trials.conditions[name][~jumps]) for name in ("jump along", "jump left"))
    first, second = _expected(trials.conditions)
    after = (np.arange(120) >= times[:, None])[..., None]
    expected = np.where(after, second[:, None], first[:, None])
    np.testing.assert_allclose(trials.targets.position, expected, atol=1e-5)
    np.testing.assert_array_equal(trials.inputs["target"], trials.targets.position)


def test_validation_has_every_direction_without_and_with_either_jump():
    trials = validation(TargetJump(WORKSPACE))
    eighths = np.repeat([0, 1, 2, 3, 4, -3, -2, -1], 3)
    np.testing.assert_allclose(trials.conditions["direction"], eighths * np.pi / 4, atol=1e-6)
    np.testing.assert_allclose(trials.conditions["jump left"], np.tile([0.0, -0.03, 0.03], 8))
    np.testing.assert_array_equal(trials.conditions["jump"], np.tile([False, True, True], 8))
    np.testing.assert_array_equal(trials.timeline.events["target jump"], np.tile([popsim.NEVER, 25, 25], 8))
    first, second = _expected(trials.conditions)
    np.testing.assert_allclose(trials.targets.position[:, 0], first, atol=1e-6)
    np.testing.assert_allclose(trials.targets.position[:, -1], second, atol=1e-6)


def test_the_hand_is_to_stay_wherever_it_is_in_the_workspace(getkey):
    trials = many_trials(PosturalHold(WORKSPACE), getkey())
    place = np.asarray(trials.init.position)
    assert_uniform(place, np.array([-0.1, 0.3]), np.array([0.2, 0.5]))
    for positions in (trials.inputs["target"], trials.targets.position):
        np.testing.assert_array_equal(positions, np.repeat(place[:, None], 120, axis=1))
    np.testing.assert_array_equal(trials.targets.velocity, 0.0)
    from_center = (place - CENTER) @ [1, 1j]
    np.testing.assert_allclose(trials.conditions["place distance"], np.abs(from_center), atol=1e-6)
    turn = np.asarray(trials.conditions["place direction"]) - np.angle(from_center)
    np.testing.assert_allclose(np.exp(1j * turn), 1.0, atol=1e-3)


def test_a_pulse_may_come_at_a_drawn_time_for_a_drawn_while(getkey):
    trials = many_trials(PosturalHold(WORKSPACE, pulse=Uniform(0.1, 0.3)), getkey())
    on, off = (np.asarray(trials.timeline.events[name]) for name in ("pulse on", "pulse off"))
    assert_uniform(0.01 * on, 0.195, 0.505)
    assert_uniform(0.01 * (off - on), 0.095, 0.305)
    np.testing.assert_array_equal(trials.timeline.epochs["pulse"], np.stack([on, off], axis=1))
