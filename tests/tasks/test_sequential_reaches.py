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

from popsim.distributions import Uniform
from popsim.tasks import SequentialReaches

TASK = SequentialReaches(WORKSPACE, n_targets=3, reach=Uniform(0.3, 0.5), duration=2.0)


def test_each_target_is_due_from_its_own_go_cue_on(getkey):
    trials = many_trials(TASK, getkey())
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
    trials = many_trials(TASK, getkey())
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


def test_in_a_catch_trial_no_cue_comes_and_the_hand_stays(getkey):
    task = SequentialReaches(WORKSPACE, catch_probability=1.0)
    trial = task.trial(batch=0, key=getkey())
    assert trial.inputs["go cue"].max() == 0
    np.testing.assert_array_equal(trial.targets.position, np.tile(trial.init.position, (160, 1)))
    stays = loss_of_hand(task, trial, trial.targets.position)
    goes = loss_of_hand(task, trial, trial.inputs["target 1"])
    assert max(stays.values()) == 0
    assert goes["position error"] == 0
    assert goes["hold"] > 0


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


def test_the_loss_counts_the_end_of_each_reach():
    task = SequentialReaches(WORKSPACE, delay=0.2)
    trial = one_of(validation(task), 0)
    assert max(loss_of_hand(task, trial, trial.targets.position).values()) == 0
    skips = jnp.where(trial.inputs["go cue"][:, :1] > 0, trial.inputs["target 2"], trial.init.position)
    missed = np.sum(np.square(trial.inputs["target 1"][0] - trial.inputs["target 2"][0]))
    expected = np.sum((np.arange(1, 61) / 60) ** 6) * missed
    assert loss_of_hand(task, trial, skips)["position error"] == pytest.approx(expected, rel=1e-4)
