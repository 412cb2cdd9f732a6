import jax.numpy as jnp
import numpy as np
from reference import exact_trajectory

import popsim
from popsim.plants import PointMass, PointMassState, simulate_plant

DT, N_STEPS = 0.01, 40
TIME = DT * np.arange(1, N_STEPS + 1)[:, None]


def test_default_integration_of_an_undamped_mass_is_exact(float64):
    start = PointMassState(jnp.array([0.1, 0.0]), jnp.array([0.5, -1.0]))
    force = jnp.array([3.0, -2.0])
    moved = simulate_plant(
        PointMass(1.5), jnp.broadcast_to(force, (N_STEPS, 2)), initial_state=start, dt=DT
    ).hand
    np.testing.assert_allclose(moved.velocity, start.velocity + force / 1.5 * TIME, atol=1e-14)
    expected = start.position + start.velocity * TIME + force / 3.0 * TIME**2
    np.testing.assert_allclose(moved.position, expected, atol=1e-14)


def test_damped_mass_approaches_its_terminal_velocity_exponentially(float64):
    mass, damping, force = 1.3, 4.0, jnp.array([3.0, -2.0])
    start = PointMassState(jnp.zeros(2), jnp.array([0.5, 1.0]))
    commands = jnp.broadcast_to(force, (N_STEPS, 2))
    plant = PointMass(mass, damping=damping)
    moved = exact_trajectory(plant, start, commands, jnp.zeros((N_STEPS, 2)), DT).hand
    terminal = force / damping
    decay = np.exp(-damping / mass * TIME)
    np.testing.assert_allclose(moved.velocity, terminal + (start.velocity - terminal) * decay, atol=1e-11)
    drift = terminal * TIME + (start.velocity - terminal) * mass / damping * (1 - decay)
    np.testing.assert_allclose(moved.position, drift, atol=1e-11)


def test_a_mass_in_a_cube_moves_in_three_dimensions(float64):
    plant = PointMass(2.0, workspace=popsim.Workspace.around(jnp.array([0.0, 0.1, 0.2]), 0.2))
    moved = simulate_plant(plant, jnp.broadcast_to(jnp.array([0.0, 0.0, 4.0]), (10, 3)), dt=DT)
    np.testing.assert_allclose(moved.hand.position[-1], [0.0, 0.1, 0.2 + 0.1**2], atol=1e-14)


def test_only_positions_that_are_no_numbers_are_out_of_reach():
    assert PointMass().is_reachable(jnp.array([1e3, -1e3]))
    assert not PointMass().is_reachable(jnp.array([0.0, jnp.nan]))
