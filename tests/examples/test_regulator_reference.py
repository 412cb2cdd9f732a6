"""The reference of the regulated point mass against direct solutions and sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim

regulator = pytest.importorskip("references.regulator", reason="examples/ is not beside the tests")
script = pytest.importorskip("policy_gradient_lqr", reason="examples/ is not beside the tests")

SHORT = regulator.Regulator(n_steps=6, velocity_weight=0.3, effort_weight=0.2)
STARTS = np.random.default_rng(0).standard_normal((4, 2))


def test_the_lowest_cost_is_the_least_squares_solution_for_all_forces_at_once():
    n, powers = SHORT.n_steps, [np.linalg.matrix_power(SHORT.A, i) for i in range(SHORT.n_steps + 1)]
    root = np.sqrt(SHORT.Q)
    of_start = np.vstack([root @ powers[t + 1] for t in range(n)] + [np.zeros((n, 2))])
    of_force = np.zeros((2 * n, n))
    for t in range(n):
        for s in range(t + 1):
            of_force[2 * t : 2 * t + 2, s] = root @ powers[t - s] @ SHORT.B
    of_force = np.vstack([of_force, SHORT.effort_weight**0.5 * np.eye(n)])
    for start, cost in zip(STARTS, regulator.optimal_costs(SHORT, STARTS), strict=True):
        forces = np.linalg.lstsq(of_force, -of_start @ start, rcond=None)[0]
        assert cost == pytest.approx(np.sum((of_start @ start + of_force @ forces) ** 2), rel=1e-10)


def test_moments_of_the_estimator_are_those_of_samples():
    gains, x, std, baseline = np.array([-0.7, 0.4]), np.array([0.8, -1.2]), 0.6, 0.3
    noise = np.random.default_rng(1).standard_normal(400_000)
    force = gains @ x + std * noise
    p, v = x[0] + SHORT.dt * x[1], x[1] + SHORT.dt * force
    cost = SHORT.position_weight * p**2 + SHORT.velocity_weight * v**2 + SHORT.effort_weight * force**2
    estimates = ((cost - baseline) * noise / std)[:, None] * x
    mean, covariance = regulator.estimator_moments(SHORT, gains, x, std, baseline)
    errors = np.sqrt(np.diag(covariance) / len(noise))
    np.testing.assert_array_less(np.abs(estimates.mean(axis=0) - mean), 3.5 * errors)
    np.testing.assert_allclose(np.cov(estimates.T), covariance, rtol=0.03)


def test_the_environment_costs_what_the_reference_says():
    gains = np.array([-1.0, -0.9])
    network = script.LinearPolicy(jnp.asarray(gains))
    model = popsim.NetworkModel(network, policy=script.Deterministic(1), dt=script.REGULATOR.dt)
    ensemble = jax.tree.map(lambda leaf: leaf[None], model)
    expected = regulator.gain_costs(script.REGULATOR, gains, script.test_starts())
    np.testing.assert_allclose(script.costs_of(ensemble)[0], expected, rtol=1e-4)
