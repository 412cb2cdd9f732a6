"""Reaches of a point, and the workspace in which they are."""

import jax.numpy as jnp
import numpy as np
import pytest
from motor_trials import CENTER, WORKSPACE, assert_uniform, many_trials

import popsim
from popsim.tasks import CenterOutReaches, RandomReaches

TASKS = {
    "random": RandomReaches(WORKSPACE),
    "center-out": CenterOutReaches(WORKSPACE),
    "whole circle": CenterOutReaches(WORKSPACE, n_directions=None),
}


def start_and_target(trials):
    return np.asarray(trials.init.position), np.asarray(trials.targets.position[:, 0])


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_reach_shows_its_target_throughout_and_asks_for_rest_there(task, getkey):
    trials = many_trials(task, getkey(), 5)
    np.testing.assert_array_equal(trials.inputs["target"], trials.targets.position)
    np.testing.assert_array_equal(np.ptp(trials.targets.position, axis=1), 0.0)
    assert not np.any(trials.init.velocity) and not np.any(trials.targets.velocity)
    start, target = start_and_target(trials)
    direction = np.arctan2(*(target - start).T[::-1])
    np.testing.assert_allclose(trials.conditions["direction"], direction, atol=1e-5)
    assert trials.inputs["target"].shape == (5, 100, 2)
    assert jnp.all(trials.timeline.epochs["movement"] == jnp.array([0, 100]))


def test_random_reaches_start_and_end_uniformly_in_the_workspace(getkey):
    places = np.concatenate(start_and_target(many_trials(TASKS["random"], getkey())), axis=1)
    assert_uniform(places, np.tile([-0.1, 0.3], 2), np.tile([0.2, 0.5], 2))
    np.testing.assert_allclose(np.corrcoef(places.T), np.eye(4), atol=5 / 2000**0.5)


@pytest.mark.parametrize(("name", "n_bins"), [("center-out", 8), ("whole circle", 10)])
def test_center_out_targets_are_in_all_directions_alike_at_the_distance(name, n_bins, getkey):
    start, target = start_and_target(many_trials(TASKS[name], getkey()))
    np.testing.assert_allclose(start, np.tile(CENTER, (2000, 1)), rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(target - start, axis=1), 0.1, rtol=1e-5)
    parts = np.arctan2(*(target - start).T[::-1]) / (2 * np.pi / n_bins)
    if name == "center-out":
        np.testing.assert_allclose(parts, np.round(parts), atol=1e-4)
    counts = np.bincount(np.round(parts).astype(int) % n_bins, minlength=n_bins)
    np.testing.assert_allclose(counts, 2000 / n_bins, atol=5 * (2000 / n_bins) ** 0.5)


@pytest.mark.parametrize(
    "task, n_directions, distance",
    [
        (RandomReaches(WORKSPACE), 8, 0.1),
        (RandomReaches(WORKSPACE, validation_distance=0.05), 8, 0.05),
        (CenterOutReaches(WORKSPACE, distance=0.07), 8, 0.07),
        (CenterOutReaches(WORKSPACE, n_directions=3), 3, 0.1),
        (CenterOutReaches(WORKSPACE, n_directions=None), 8, 0.1),
    ],
)
def test_validation_trials_go_evenly_around_from_the_center(task, n_directions, distance):
    start, target = start_and_target(task.validation_trials())
    angle = 2 * np.pi * np.arange(n_directions) / n_directions
    around = CENTER + distance * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    np.testing.assert_allclose(start, np.tile(CENTER, (n_directions, 1)), rtol=1e-6)
    np.testing.assert_allclose(target, around, atol=1e-6)


def test_reaches_in_space_are_in_the_plane_of_the_first_two_axes(getkey):
    task = CenterOutReaches(popsim.Workspace([0.0, 0.0, 0.0], [0.2, 0.2, 0.2]))
    for trials in (task.validation_trials(), many_trials(task, getkey(), 3)):
        np.testing.assert_allclose(trials.targets.position[..., 2], 0.1, rtol=1e-6)


def test_a_square_is_around_its_center():
    workspace = popsim.Workspace.around(jnp.array([0.1, 0.4]), 0.2)
    np.testing.assert_allclose(workspace.center, [0.1, 0.4], rtol=1e-6)
    np.testing.assert_allclose(workspace.half_widths, 0.1, rtol=1e-6)
    np.testing.assert_allclose([workspace.low, workspace.high], [[0.0, 0.3], [0.2, 0.5]], atol=1e-7)
