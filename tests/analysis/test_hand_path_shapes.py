"""Lengths, bends and deviations of lines and arcs, and ellipses of points, that geometry gives."""

import jax.numpy as jnp
import numpy as np

from popsim.analysis import behaviour

RADIUS, HALF_ANGLE = 0.1, 0.7  # m, rad
CHORD = 2 * RADIUS * np.sin(HALF_ANGLE)
SAGITTA = RADIUS * (1 - np.cos(HALF_ANGLE))
STARTS = np.array([[0.1, 0.2], [0.0, 0.0], [-0.3, 0.1]])
DIRECTIONS = np.array([0.3, 2.0, -1.2])
TARGETS = STARTS + CHORD * np.stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)], axis=1)


def arcs(n_points=201):
    """From start to target on a circle, that turns to the right and so is to the left of the line."""
    turn = np.linspace(-HALF_ANGLE, HALF_ANGLE, n_points)
    along, left = CHORD / 2 + RADIUS * np.sin(turn), RADIUS * np.cos(turn) - RADIUS * np.cos(HALF_ANGLE)
    x, y = np.cos(DIRECTIONS)[:, None], np.sin(DIRECTIONS)[:, None]
    return STARTS[:, None] + np.stack([along * x - left * y, along * y + left * x], axis=-1)


def mirrored(paths):
    """The same on the other side of the line."""
    unit = (TARGETS - STARTS) / CHORD
    left = np.stack([-unit[:, 1], unit[:, 0]], axis=-1)[:, None]
    return paths - 2 * np.sum((paths - STARTS[:, None]) * left, axis=-1, keepdims=True) * left


def test_the_deviation_of_an_arc_is_its_sagitta_and_left_is_positive():
    both = jnp.asarray(np.stack([arcs(), mirrored(arcs())]))
    found = behaviour.maximum_perpendicular_deviation(both, STARTS, TARGETS)
    np.testing.assert_allclose(found, [[SAGITTA] * 3, [-SAGITTA] * 3], rtol=1e-5)
    course = behaviour.perpendicular_deviation(arcs(), STARTS, TARGETS)
    np.testing.assert_allclose(course[:, [0, -1]], 0.0, atol=1e-12)
    up = np.array([[[-0.01, 0.05], [0.02, 0.06]]])  # left, then farther to the right, of the way up
    found = behaviour.maximum_perpendicular_deviation(up, np.zeros((1, 2)), np.array([[0.0, 0.1]]))
    np.testing.assert_allclose(found, [-0.02])


def test_the_curvature_of_an_arc_is_one_over_its_radius():
    curved = behaviour.curvature(np.stack([arcs(9), mirrored(arcs(9))]))
    np.testing.assert_allclose(curved[0, :, 1:-1], -1 / RADIUS)
    np.testing.assert_allclose(curved[1, :, 1:-1], 1 / RADIUS)
    assert np.isnan(curved[..., [0, -1]]).all()
    line = np.array([[0.0, 0], [0.1, 0.1], [0.3, 0.3], [0.3, 0.3], [0.4, 0.4]])
    np.testing.assert_allclose(behaviour.curvature(line), [np.nan, 0, np.nan, np.nan, np.nan], atol=1e-12)


def test_an_arc_is_longer_than_its_chord():
    np.testing.assert_allclose(behaviour.path_length(arcs()), 2 * HALF_ANGLE * RADIUS, rtol=1e-4)
    np.testing.assert_allclose(behaviour.path_ratio(arcs()), HALF_ANGLE / np.sin(HALF_ANGLE), rtol=1e-4)
    line = np.linspace([0.0, 0.0, 0.0], [0.1, 0.2, 0.2], 5)
    np.testing.assert_allclose([behaviour.path_length(line), behaviour.path_ratio(line)], [0.3, 1.0])
    assert np.isnan(behaviour.path_ratio(np.zeros((3, 2))))


def test_a_reach_is_launched_along_the_tangent():
    dt = 0.01
    paths = arcs(1001)
    velocity = np.gradient(paths, dt, axis=1)
    times = np.array([dt, 501 * dt, 1001 * dt])  # begin, middle and end of the arc
    found = behaviour.initial_velocity_angle(velocity, STARTS, TARGETS, times, dt=dt)
    np.testing.assert_allclose(found, [HALF_ANGLE, 0.0, -HALF_ANGLE], atol=2e-3)
    both = np.stack([paths, mirrored(paths)])
    found = behaviour.initial_direction_error(both, STARTS, TARGETS, np.full((1, 3), 5.01), dt=dt)
    apex = np.arctan2(SAGITTA, CHORD / 2)
    np.testing.assert_allclose(found, [[apex] * 3, [-apex] * 3], rtol=1e-6)


def test_angles_between_the_steps_and_where_there_is_none():
    velocity = np.array([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    toward = np.array([[1.0, 0.0]] * 3)
    found = behaviour.initial_velocity_angle(
        velocity, 0 * toward, toward, np.array([0.1, 0.15, np.nan]), dt=0.1
    )
    np.testing.assert_allclose(found, [0.0, np.pi / 4, np.nan])
    assert np.isnan(
        behaviour.initial_velocity_angle(0 * velocity, 0 * toward, toward, np.full(3, 0.1), dt=0.1)
    ).all()
    to_the_start = behaviour.initial_velocity_angle(velocity, toward, toward, np.full(3, 0.1), dt=0.1)
    assert np.isnan(to_the_start).all()


def test_an_ellipse_of_known_axes_is_found():
    around = 2 * np.pi * np.arange(8) / 8
    scale = np.sqrt(7 / 4)  # so that cos and sin have variance one over eight points less one
    turn, wide, narrow = 0.4, 3e-3, 1e-3
    points = scale * np.stack([wide * np.cos(around), narrow * np.sin(around)], axis=1)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    found = behaviour.end_point_ellipse(np.stack([points @ rotation.T + [0.1, 0.2]] * 2), coverage=0.95)
    np.testing.assert_allclose(found.center, [[0.1, 0.2]] * 2)
    squared_reach = 2 * 63 / (8 * 6) * 5.14325285  # F of 2 and 6 degrees of freedom
    np.testing.assert_allclose(found.semi_axes[0], np.sqrt(squared_reach) * np.array([wide, narrow]))
    np.testing.assert_allclose(found.angle, turn)
    np.testing.assert_allclose(found.area, np.pi * squared_reach * wide * narrow)
    np.testing.assert_allclose(found.covariance[1], rotation @ np.diag([wide**2, narrow**2]) @ rotation.T)


def test_the_after_effect_is_beyond_the_baseline(as_users_run):
    baseline = np.array([[0.001, -0.002], [0.0, 0.003]])
    np.testing.assert_allclose(behaviour.after_effect(baseline + [[0.02], [0.03]], baseline), [0.02, 0.03])
