"""Phase planes of linear networks against closed forms."""

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

from popsim.analysis import dynamics
from popsim.analysis.figures import draw_phase_portrait
from popsim.networks import LeakyRNN

DT, TAU, N_UNITS = 0.01, 0.05, 4
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


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def circling(x, y):
    columns, rows = np.meshgrid(x, y)
    return np.stack([-rows, columns], axis=-1)


def test_points_of_which_no_more_is_known_are_rings(ax):
    draw_phase_portrait(ax, X, Y, circling(X, Y), points=np.zeros((3, 2)))
    assert len(ax.lines[-1].get_xdata()) == 3 and ax.get_legend() is None
