"""Linearised dynamics, their modes, line attractors, phase planes, and states that are left alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.analysis import dynamics
from popsim.networks import LeakyRNN

DT = 0.01


class Planar(eqx.Module):
    """h' = A tanh(h) + B u, in two dimensions with one input."""

    recurrent: jnp.ndarray
    received: jnp.ndarray


def planar_step(model, h, inputs):
    return model.recurrent @ jnp.tanh(h) + model.received @ inputs**2


def planar_ensemble():
    generator = np.random.default_rng(0)
    return Planar(*(jnp.asarray(generator.normal(size=(3, 2, n)), jnp.float32) for n in (2, 1)))


def test_jacobians_are_those_of_the_formula():
    ensemble, states = planar_ensemble(), np.random.default_rng(1).normal(size=(3, 4, 2))
    inputs = np.array([[0.5], [2.0], [-1.0]])
    by_state = dynamics.state_jacobians(ensemble, states, inputs=inputs, dynamics=planar_step)
    slope = 1 - np.tanh(states) ** 2
    exact = np.asarray(ensemble.recurrent, float)[:, None] * slope[:, :, None]
    np.testing.assert_allclose(by_state, exact, rtol=1e-13)
    by_input = dynamics.input_jacobians(ensemble, states, inputs, dynamics=planar_step)
    exact = 2 * np.asarray(ensemble.received, float) * inputs[:, None]
    np.testing.assert_allclose(by_input, np.broadcast_to(exact[:, None], (3, 4, 2, 1)), rtol=1e-13)
    assert jnp.ones(1).dtype == jnp.float32


def test_modes_decay_and_oscillate_as_they_were_made():
    """One mode decays in 50 ms and oscillates at 4 Hz, one decays in 20 ms, one is an integrator."""
    fast, turn = np.exp(-DT / 0.05), 2 * np.pi * 4 * DT
    rotation = fast * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    own = np.zeros((4, 4))
    own[:2, :2], own[2, 2], own[3, 3] = rotation, np.exp(-DT / 0.02), 1.0
    basis = np.random.default_rng(0).normal(size=(4, 4))
    jacobian = basis @ own @ np.linalg.inv(basis)
    found = dynamics.modes(jacobian[None, None])
    tau = dynamics.time_constants(found.eigenvalue[0, 0], dt=DT)
    np.testing.assert_allclose(np.abs(tau[1:]), [0.05, 0.05, 0.02], rtol=1e-9)
    assert abs(tau[0]) > 1e9
    np.testing.assert_allclose(dynamics.frequencies(found.eigenvalue[0, 0], dt=DT), [0, 4, 4, 0], atol=1e-9)
    eigenvalue, direction, selection = (x[0, 0] for x in found)
    np.testing.assert_allclose(jacobian @ direction, direction * eigenvalue, atol=1e-12)
    np.testing.assert_allclose(selection @ jacobian, eigenvalue[:, None] * selection, atol=1e-11)
    np.testing.assert_allclose(selection @ direction, np.eye(4), atol=1e-12)


def test_growth_has_a_negative_time_constant_and_a_fixed_mode_an_infinite_one():
    tau = dynamics.time_constants(np.array([np.e, 1.0, 0.0, -1 / np.e]), dt=DT)
    np.testing.assert_allclose(tau, [-DT, np.inf, 0.0, DT])
    np.testing.assert_allclose(
        dynamics.frequencies(np.array([-0.5]), dt=DT), 1 / (2 * DT)
    )  # every other step


class Ring(eqx.Module):
    """Radius goes to `radius`, angle stays: a ring attractor in the first two of three dimensions."""

    radius: jnp.ndarray


def ring_step(model, h):
    size = jnp.sqrt(h[0] ** 2 + h[1] ** 2)
    return jnp.concatenate([h[:2] * (1 + 0.3 * (model.radius - size) / size), 0.5 * h[2:]])


def test_a_ring_has_one_slow_direction_along_it_and_states_return_to_it():
    ensemble, generator = Ring(jnp.array([2.0])), np.random.default_rng(0)
    starts = 2 * generator.normal(size=(1, 200, 3))
    found = dynamics.find_fixed_points(ensemble, starts, dynamics=ring_step)
    points = found.fixed
    assert len(points) > 100 and (points.n_marginal == 1).all() and not points.is_stable.any()
    np.testing.assert_allclose(np.linalg.norm(points.state, axis=1), 2, atol=1e-9)
    slow = dynamics.slow_directions(points.state, points.jacobian, dt=0.01, least_time_constant=0.3)
    np.testing.assert_array_equal(slow.n_slow, 1)
    np.testing.assert_allclose(slow.eigenvalue, 1, atol=1e-9)
    np.testing.assert_allclose(slow.next_largest, 1 - 0.3 * 2 / 2, atol=1e-9)
    around = np.stack([-points.state[:, 1], points.state[:, 0], np.zeros(len(points))], axis=1) / 2
    np.testing.assert_allclose(np.abs(np.sum(slow.direction * around, axis=1)), 1, atol=1e-9)
    np.testing.assert_allclose(np.sum(slow.direction * slow.selection, axis=1), 1, atol=1e-9)
    assert np.median(slow.alignment) > 0.999 and (slow.alignment > 0.97).all()


def test_a_mode_is_slow_by_its_time_and_not_by_the_number_of_steps():
    """Time constants of 0.05 and 2 s, and growth by e in 0.5 s, whatever the time step is."""
    points = np.linspace(-1, 1, 7)[:, None] * [1.0, 0.0, 0.0]
    for dt in (0.001, 0.01):
        jacobian = np.tile(np.diag(np.exp([-dt / 2.0, -dt / 0.05, dt / 0.5])), (7, 1, 1))
        for least, growth, n_slow in ((0.2, None, 2), (0.04, None, 3), (0.2, 1.0, 1), (3.0, None, 0)):
            times = {"least_time_constant": least, "least_growth_time": growth}
            found = dynamics.slow_directions(points, jacobian, dt=dt, **times)
            np.testing.assert_array_equal(found.n_slow, n_slow)


def decay(model, h):
    return h - 0.25 * jnp.sign(model.radius) * (h - jnp.sign(h))  # to the nearest corner


def test_states_that_are_left_alone_go_where_the_dynamics_take_them():
    ensemble, begun = Ring(jnp.array([1.0, 1.0])), np.random.default_rng(0).uniform(-3, 3, (2, 30, 2))
    followed = dynamics.rollout(ensemble, begun, 40, dynamics=decay)
    assert followed.shape == (2, 30, 40, 2)
    left = 0.75 ** np.arange(1, 41)[:, None]
    exact = np.sign(begun)[:, :, None] + (begun - np.sign(begun))[:, :, None] * left
    np.testing.assert_allclose(followed, exact, atol=1e-12)
    points = dynamics.find_fixed_points(ensemble, begun, dynamics=decay).fixed
    reached = dynamics.assign_basins(points, followed[:, :, -1], within=1e-3)
    np.testing.assert_allclose(points.state[reached], np.sign(begun), atol=1e-9)
    np.testing.assert_array_equal(points.member[reached], [[0] * 30, [1] * 30])
    assert (dynamics.assign_basins(points, begun + 10, within=1e-3) == -1).all()
    stable_in_one = points.select_member(0)
    assert (dynamics.assign_basins(stable_in_one, followed[:, :, -1], within=1e-3)[1] == -1).all()


TAU, N_UNITS = 0.05, 4
X, Y = np.linspace(-1, 1, 5), np.linspace(-2, 1, 4)


@pytest.fixture
def ensemble():
    """Two linear networks, whose velocity is (W h + U u + b - h) / tau."""

    def build(key):
        return LeakyRNN(3, N_UNITS, 1, tau=TAU, dt=DT, nonlinearity=lambda x: x, noise_std=0.2, key=key)

    return eqx.filter_vmap(build)(jax.random.split(jax.random.key(0), 2))


def linear_velocity(ensemble, states, received):
    weights, inputs, bias = (
        np.asarray(leaf, np.float64)
        for leaf in (ensemble.recurrent_weights, ensemble.input_weights, ensemble.bias)
    )
    drive = np.einsum("mij,mpj->mpi", weights, states) + (inputs @ received + bias)[:, None]
    return (drive - states) / TAU


def test_velocities_are_those_of_a_linear_network_with_a_held_input(ensemble):
    rng = np.random.default_rng(0)
    directions, origin, received = (
        rng.normal(size=(2, 2, N_UNITS)),
        rng.normal(size=(2, N_UNITS)),
        rng.normal(size=3),
    )
    plane = dynamics.phase_plane(
        ensemble, directions, X, Y, origin=origin, inputs={"target": received}, dt=DT
    )
    np.testing.assert_allclose(plane.axes @ plane.axes.mT, np.tile(np.eye(2), (2, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(
        plane.axes[:, 0], directions[:, 0] / np.linalg.norm(directions[:, 0], axis=-1, keepdims=True)
    )
    spanned = np.linalg.matrix_rank(np.concatenate([plane.axes, directions], axis=1))
    assert spanned.tolist() == [2, 2]
    states = np.stack(
        [[origin[m] + x * plane.axes[m, 0] + y * plane.axes[m, 1] for y in Y for x in X] for m in range(2)]
    )
    expected = linear_velocity(ensemble, states, received)
    in_plane = np.einsum("mps,mas->mpa", expected, plane.axes).reshape(2, Y.size, X.size, 2)
    np.testing.assert_allclose(plane.velocity, in_plane, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(plane.speed.reshape(2, -1), np.linalg.norm(expected, axis=-1), rtol=1e-5)
    grid = np.stack(np.meshgrid(X, Y), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(plane.project(states), np.stack([grid, grid]), atol=1e-12)


def test_one_plane_for_all_members_has_its_origin_at_zero(ensemble):
    plane = dynamics.phase_plane(ensemble, np.eye(N_UNITS)[:2], X, Y, dt=DT)
    assert not plane.origin.any() and plane.axes.shape == (2, 2, N_UNITS)
    received = np.zeros(3)
    at_zero = linear_velocity(ensemble, np.array([[[0.5, -2.0, 0, 0]]] * 2), received)[:, 0, :2]
    np.testing.assert_allclose(plane.velocity[:, 0, 3], at_zero, rtol=1e-5, atol=1e-6)
