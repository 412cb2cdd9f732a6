import jax
import numpy as np
import pytest
from motor_trials import CENTER, WORKSPACE, assert_share, loss_of_hand, many_trials, one_of
from scipy.spatial import ConvexHull

from popsim import losses
from popsim.tasks import ObstacleAvoidance, obstacle_clearance, shortest_path_length

TASK = ObstacleAvoidance(WORKSPACE)


@pytest.fixture(scope="module")
def drawn():
    return many_trials(TASK, jax.random.key(0))


@pytest.fixture(scope="module")
def trials():
    return TASK.validation_trials()


def test_the_obstacle_is_drawn_halfway_beside_the_straight_line(drawn):
    start, target = np.asarray(drawn.init.position), np.asarray(drawn.targets.position[:, -1])
    np.testing.assert_allclose((start + target) / 2, np.broadcast_to(CENTER, start.shape), atol=1e-6)
    along = (target - start) / 0.16
    np.testing.assert_allclose(np.linalg.norm(along, axis=1), 1.0, rtol=1e-4)
    there, offset = (np.asarray(drawn.conditions[name]) for name in ("obstacle", "obstacle left"))
    assert_share(there, 0.8)
    np.testing.assert_array_equal(np.unique(offset[there]), np.float32([-0.015, 0.0, 0.015]))
    assert not offset[~there].any() and not drawn.inputs["obstacle radius"][~there].any()
    left = offset[:, None] * along @ [[0, 1], [-1, 0]]
    np.testing.assert_allclose(drawn.inputs["obstacle"][:, 7] - CENTER, left, atol=1e-6)
    np.testing.assert_array_equal(drawn.inputs["obstacle shown"][:, 7, 0], there)
    np.testing.assert_array_equal(drawn.inputs["obstacle radius"][:, 7, 0], np.float32(0.03) * there)


def test_the_shortest_path_is_that_of_a_string_around_the_obstacle(drawn):
    """The convex hull of start, target and the disc is two such paths: one on each side."""
    shortest = np.asarray(shortest_path_length(drawn))
    turns = 2 * np.pi * np.arange(20_000) / 20_000
    there, offset = (np.asarray(drawn.conditions[name]) for name in ("obstacle", "obstacle left"))
    for index in [np.argmax(there & (offset == value)) for value in np.unique(offset)]:
        trial = one_of(drawn, index)
        start, target = np.asarray(trial.init.position), np.asarray(trial.targets.position[-1])
        radius = float(trial.conditions["obstacle radius"])
        edge = trial.inputs["obstacle"][0] + radius * np.stack([np.cos(turns), np.sin(turns)], axis=-1)
        left = (edge - start) @ np.array([start[1] - target[1], target[0] - start[0]])
        sides = [ConvexHull(np.vstack([start, target, edge[side]])) for side in (left > 0, left < 0)]
        strings = [hull.area - 0.16 for hull in sides]  # `area` is the perimeter in the plane
        assert shortest[index] == pytest.approx(min(strings), rel=1e-4) and shortest[index] > 0.162
    np.testing.assert_allclose(shortest[~there], 0.16, rtol=1e-4)


def test_the_loss_counts_how_deep_the_hand_is_in_the_obstacle(trials):
    """A hand that goes straight for half of the time, and waits at the target."""
    entry = losses.ObstacleEntry(margin=0.01)
    task = ObstacleAvoidance(WORKSPACE, loss=1.0 * entry)
    share = np.minimum(np.arange(1, 121) / 60, 1.0)[:, None]
    trial = one_of(trials, 2)
    path = trial.init.position + share * (trial.targets.position - trial.init.position)
    clearance = np.asarray(obstacle_clearance(path, trial))
    expected = np.linalg.norm(path - trial.inputs["obstacle"], axis=-1) - 0.03
    np.testing.assert_allclose(clearance, expected, atol=1e-6)
    assert clearance.min() < 0
    paid = loss_of_hand(task, trial, path)["obstacle entry"]
    assert paid == pytest.approx(np.sum(np.maximum(0, 0.01 - clearance) ** 2), rel=1e-4)
    assert np.all(np.isinf(obstacle_clearance(path, one_of(trials, 0))))
