"""The condition "direction" of all reaches: above -pi and up to pi, the same in training and validation."""

import jax.numpy as jnp
import numpy as np
import pytest
from motor_trials import WORKSPACE, many_trials, validation

from popsim.tasks import CenterOutReaches, DelayedReaches, RandomReaches, SequentialReaches, TargetJump
from popsim.tasks.trial_parts import direction_of, wrap_angle

EIGHT = np.array([-3, -2, -1, 0, 1, 2, 3, 4]) * np.pi / 4
TO_EIGHT = [CenterOutReaches(WORKSPACE), DelayedReaches(WORKSPACE), TargetJump(WORKSPACE)]


@pytest.mark.parametrize("task", TO_EIGHT, ids=lambda task: type(task).__name__)
def test_eight_targets_have_eight_labels_in_training_and_validation(task, getkey):
    for trials in (validation(task), many_trials(task, getkey(), 300)):
        np.testing.assert_allclose(np.unique(trials.conditions["direction"]), EIGHT, atol=1e-6)


@pytest.mark.parametrize("n_directions", [2, 6, 10, None])
def test_the_leftward_target_has_one_label(n_directions, getkey):
    task = CenterOutReaches(WORKSPACE, n_directions=n_directions)
    for trials in (validation(task), many_trials(task, getkey(), 300)):
        direction = np.asarray(trials.conditions["direction"])
        assert direction.min() > -3.14159 and direction.max() <= np.float32(np.pi)


def test_validation_reaches_of_other_tasks_are_labelled_alike():
    for trials, name, per_direction in (
        (validation(RandomReaches(WORKSPACE)), "direction", 1),
        (validation(SequentialReaches(WORKSPACE)), "direction 1", 2),
    ):
        expected = np.repeat(np.roll(EIGHT, -3), per_direction)
        np.testing.assert_allclose(trials.conditions[name], expected, atol=1e-5)


def test_directions_are_wrapped_at_the_left():
    angles = jnp.array([-7.0, -np.pi, -np.pi + 1e-6, -3.0, 0.0, 3.0, np.pi, np.pi + 1e-6, 4.0, 2 * np.pi])
    left = np.pi
    expected = [-7 + 2 * left, left, left, -3.0, 0.0, 3.0, left, left, 4 - 2 * left, 0.0]
    np.testing.assert_allclose(wrap_angle(angles), expected, atol=2e-6)
    np.testing.assert_array_equal(wrap_angle(angles[3:6]), angles[3:6])
    assert float(direction_of(jnp.array([-1.0, -0.0]))) == pytest.approx(np.pi)
