"""Fixed points of systems that are solved by hand, and of networks."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim.analysis import dynamics

DT = 0.1


class Cubic(eqx.Module):
    """Units of their own that go to -size or size and leave 0: h += dt (h - h^3 / size^2)."""

    size: jax.Array


def cubic_step(model, h):
    return h + DT * (h - h**3 / model.size**2)


def cubic_ensemble(*sizes):
    return Cubic(jnp.asarray(sizes, jnp.float32))


def starts_around(size, n_starts, n_units, seed=0):
    generator = np.random.default_rng(seed)
    return size * generator.uniform(-1.3, 1.3, (n_starts, n_units))


def test_bistable_units_rest_at_all_combinations_of_their_three_points():
    """C(n, k) 2^(n - k) of them have k unstable directions: 8, 12, 6, 1 for three units."""
    sizes, n_units = (1.0, 50.0), 3
    starts = np.stack([starts_around(size, 400, n_units) for size in sizes])
    found = dynamics.find_fixed_points(cubic_ensemble(*sizes), starts, dynamics=cubic_step)
    points = found.fixed
    np.testing.assert_array_equal(points.counts(), [[8, 12, 6, 1]] * 2)
    assert len(found.slow) == 0 and not found.n_lost.any()
    for member, size in enumerate(sizes):
        own = points.select_member(member)
        grid = np.array(list(itertools.product([-size, 0.0, size], repeat=n_units)))
        distance = np.linalg.norm(own.state[:, None] - grid, axis=-1)
        np.testing.assert_allclose(distance.min(axis=0), 0, atol=1e-7 * size)
        assert sorted(distance.argmin(axis=1)) == list(range(3**n_units))
        assert own.n_starts.sum() == 400 and own.index.sum() == 1
        is_zero = np.abs(own.state) < 0.5 * size  # where the slope is 1 + dt; else it is 1 - 2 dt
        slopes = -np.sort(-np.where(is_zero, 1 + DT, 1 - 2 * DT), axis=-1)
        np.testing.assert_allclose(own.eigenvalues, slopes, atol=1e-6)
        np.testing.assert_array_equal(own.n_unstable, is_zero.sum(axis=-1))
        np.testing.assert_array_equal(own.is_stable, ~is_zero.any(axis=-1))
    assert (points.residual < 1.5e-10).all() and not points.n_marginal.any()
    assert len(points.where(points.is_stable)) == 2 * 8


def pitchfork(model, h):
    """The first unit has a pitchfork bifurcation at 0, the others decay; axes and origin are others."""
    turned = jnp.linalg.qr(jnp.arange(9.0).reshape(3, 3) ** 2 + jnp.eye(3))[0]
    z = turned.T @ (h - 0.3)
    first = z[:1] + DT * (model.size * z[:1] - z[:1] ** 3)
    return 0.3 + turned @ jnp.concatenate([first, 0.5 * z[1:]])


def gain_of_one(model, h):
    return jnp.tanh((1 + model.size) * h)


@pytest.mark.parametrize("step, beyond", [(pitchfork, 0.0), (pitchfork, 1e-3), (gain_of_one, 1e-8)])
def test_a_bifurcation_is_one_point_or_all_that_it_splits_into(step, beyond):
    with jax.enable_x64(True):
        ensemble = Cubic(jnp.asarray([beyond]))
    starts = starts_around(1.0, 200, 3 if step is pitchfork else 1)[None]
    points = dynamics.find_fixed_points(ensemble, starts, dynamics=step).fixed
    assert points.index.sum() == 1 and points.n_starts.sum() == 200
    assert len(points) == (1 if beyond < 1e-3 else 3)


class Matrix(eqx.Module):
    """h' = A h + inputs."""

    weights: jax.Array


def linear_ensemble():
    """Three members A h + b, whose eigenvalues are known."""
    generator = np.random.default_rng(1)
    eigenvalues = np.array([[0.9, -0.5, 0.2], [1.5, 0.99, 0.0], [-1.2, -1.1, 0.3]])
    basis = generator.normal(size=(3, 3, 3))
    matrices = basis @ (eigenvalues[:, :, None] * np.linalg.inv(basis))
    return matrices, generator.normal(size=(3, 3)), eigenvalues


def linear_step(model, h, inputs):
    return model.weights @ h + inputs


def test_a_linear_map_has_one_point_with_the_eigenvalues_of_its_matrix():
    matrices, offsets, eigenvalues = linear_ensemble()
    starts = np.random.default_rng(2).normal(size=(3, 10, 3))
    single = matrices.astype(np.float32)
    found = dynamics.find_fixed_points(
        Matrix(jnp.asarray(single)), starts, inputs=offsets, dynamics=linear_step
    )
    points = found.fixed
    np.testing.assert_array_equal(points.member, [0, 1, 2])
    np.testing.assert_array_equal(points.n_starts, [10, 10, 10])
    exact = np.linalg.solve(np.eye(3) - single.astype(float), offsets[..., None])[..., 0]
    np.testing.assert_allclose(points.state, exact, rtol=1e-7)
    np.testing.assert_allclose(np.abs(points.eigenvalues[0]), [0.9, 0.5, 0.2], atol=1e-5)
    np.testing.assert_array_equal(points.n_unstable, [0, 1, 2])
    np.testing.assert_array_equal(points.index, [1, -1, 1])  # -1.2 and -1.1 turn no sign of det(1 - A)


def ghost_step(model, h):
    return h + h**2 + model.size


def test_a_point_that_has_just_vanished_is_slow_and_not_fixed():
    """The speed is least at 0, gap^2 / 2, where the Jacobian is 1."""
    gaps, starts = np.array([1e-4, 1e-2]), np.tile(np.linspace(-0.1, 0.1, 21), (2, 1))[..., None]
    found = dynamics.find_fixed_points(cubic_ensemble(*gaps), starts, dynamics=ghost_step)
    assert len(found.fixed) == 0
    np.testing.assert_array_equal(found.n_lost, [0, 21])
    np.testing.assert_allclose(found.slow.state, 0, atol=1e-4)
    np.testing.assert_allclose(found.slow.speed, gaps[0] ** 2 / 2, rtol=1e-4)
    np.testing.assert_allclose(found.slow.residual, gaps[0], rtol=1e-4)
    np.testing.assert_allclose(found.slow.eigenvalues.real, 1, atol=1e-3)
    assert found.slow.n_starts.sum() == 21


def build_network(key):
    return popsim.networks.LeakyRNN(2, 5, 1, gain=4.0, noise_std=0.3, key=key)  # with many points


def network_ensemble():
    return popsim.make_ensemble(build_network, 2, key=jax.random.key(0))


STARTS = 8 * np.random.default_rng(0).uniform(-1, 1, (2, 150, 5))


@pytest.mark.slow
def test_networks_rest_without_noise_where_their_own_step_leaves_them():
    ensemble, received = network_ensemble(), np.array([[0.3, -0.2], [0.0, 1.0]])
    model = popsim.NetworkModel(ensemble, dt=0.01)
    points = dynamics.find_fixed_points(model, STARTS, inputs={"signal": received}).fixed
    assert points.counts().sum() > 2  # so that some member has several
    assert [points.select_member(i).index.sum() for i in range(2)] == [1, 1]
    for row, member in enumerate(points.member):
        network = popsim.without_noise(popsim.member(ensemble, int(member)))
        state = jnp.asarray(points.state[row], jnp.float32)
        after = network.step(jnp.asarray(received[member], jnp.float32), state, key=jax.random.key(0))
        np.testing.assert_allclose(after, state, atol=3e-6)


@pytest.mark.parametrize("draw", [dynamics.mixtures_of_states, dynamics.states_with_noise])
def test_starts_are_drawn_from_what_each_member_visited(draw):
    visited = np.random.default_rng(0).normal(size=(3, 4, 50, 2)) + 10 * np.arange(3)[:, None, None, None]
    starts = draw(visited, 1000, key=jax.random.key(1))
    assert starts.shape == (3, 1000, 2)
    np.testing.assert_allclose(starts.mean(axis=1), visited.mean(axis=(1, 2)), atol=0.15)
    np.testing.assert_array_equal(draw(visited[:2], 1000, key=jax.random.key(1)), starts[:2])
    assert (draw(visited, 1000, key=jax.random.key(2)) != starts).all()


def test_mixtures_are_within_what_was_visited_and_noise_is_as_large_as_said():
    corners = np.array([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    mixed = dynamics.mixtures_of_states(corners, 500, key=jax.random.key(0))
    assert (mixed >= 0).all() and (mixed.sum(axis=-1) <= 1 + 1e-12).all() and (mixed > 0.1).any()
    line = np.linspace(-1, 1, 1001)[None, :, None] * np.array([3.0, 4.0])  # the distance has variance 25 / 3
    noisy = dynamics.states_with_noise(line, 4000, noise=0.2, key=jax.random.key(0))
    across = noisy[0] @ np.array([4.0, -3.0]) / 5
    np.testing.assert_allclose(across.std(), 0.2 * (25 / 3 / 2) ** 0.5, rtol=0.05)
