"""Bodies over time: against closed forms, exact solutions and the solvers of diffrax."""

import contextlib

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bodies import ARMS, PLANTS
from central_differences import assert_gradients_agree
from reference import exact_trajectory
from short_form import every_nth, every_nth_row

from popsim import Workspace, plants
from popsim.plants._integrate import integrate
from popsim.plants.simulate import check_damping

N_STEPS, DT = 40, 0.01


@eqx.filter_jit
def hand_of(plant, state, commands, force):
    return plants.simulate_plant(plant, commands, initial_state=state, external_force=force, dt=DT).hand


def still(plant):
    return plant.rest_state(plant.workspace.center)


def held(value, n_steps=N_STEPS):
    return jnp.broadcast_to(jnp.asarray(value), (n_steps, len(value)))


def test_a_constant_hand_force_displaces_an_arm_as_its_dynamics_say(arm):
    force, no_torque = jnp.array([0.6, -0.8]), held([0.0, 0.0])
    hand = hand_of(arm, still(arm), no_torque, force)
    exact = exact_trajectory(arm, still(arm), no_torque, held(force), DT).hand
    assert jnp.linalg.norm(exact.position[-1] - exact.position[0]) > 0.01
    np.testing.assert_allclose(hand.position, exact.position, atol=2e-6)

    angle = still(arm).angle
    mobility = arm.jacobian(angle) @ jnp.linalg.inv(arm.inertia_matrix(angle)) @ arm.jacobian(angle).T
    moved = exact.position[2] - arm.workspace.center
    np.testing.assert_allclose(moved, mobility @ force * (3 * DT) ** 2 / 2, rtol=0.02)


def test_row_t_is_the_state_at_the_end_of_step_t(float64):
    pushed = jnp.zeros((5, 2)).at[2].set(1.0)
    velocity = plants.simulate_plant(plants.PointMass(), pushed, dt=DT).hand.velocity[:, 0]
    np.testing.assert_allclose(velocity, [0.0, 0.0, DT, DT, DT])


def states(plant, key, n):
    """States in which an arm is within its joint limits."""
    first, second = jax.random.uniform(key, (2, n, 2), minval=-1.0, maxval=1.0)
    if isinstance(plant, plants.PointMass):
        return plants.PointMassState(first, second)
    return plants.JointState(jnp.array([0.8, 1.5]) + first / 4, 3 * second)


def end(inputs):
    """Some mixture of end point and end velocity."""
    hand = hand_of(*inputs)
    return hand.position[-1] @ jnp.array([1.0, -0.7]) + hand.velocity[-1] @ jnp.array([0.3, 0.2])


def test_gradients_agree_with_central_differences(plant, getkey):
    start = jax.tree.map(lambda leaf: leaf[0], states(plant, getkey(), 1))
    commands = jax.random.normal(getkey(), (10, plant.n_commands))
    inputs = (plant, start, commands, jnp.array([0.5, -0.3]))
    without_effect = assert_gradients_agree(end, inputs, getkey())
    unused = (".workspace", ".joint_limits", ".joint_stop")
    assert all(any(name in path for name in unused) for path in without_effect)


@pytest.mark.parametrize(
    "build",
    every_nth(
        [
            lambda share: plants.PointMass(2.0, damping=400.0 * share),
            lambda share: plants.PointMass(2.0, damping=400.0 * share, solver=diffrax.Euler()),
            lambda share: plants.muscled_point_mass(mass=0.5, damping=200.0 * share),  # two substeps
            lambda share: plants.NLinkArm(mass=[1.0, 1.0], length=[0.3, 0.3], friction=[116.0 * share, 0.0]),
            lambda share: plants.TwoLinkArm.motornet(friction=np.eye(2) * 17.7 * share),
        ],
        4,
    ),
)
def test_a_time_step_too_long_for_the_friction_is_refused(build):
    """Two over the time constant, of Euler's and of Heun's method: there, velocities grow step by step."""

    @eqx.filter_jit
    def largest_velocity(plant):
        moving = jax.tree.map(lambda leaf: leaf + 1e-3, still(plant))

        def step(state, _):
            state = plants.advance(plant, state, jnp.zeros(plant.n_commands), plants.Load(), dt=DT)
            return state, jnp.max(jnp.abs(plant.coordinates(state)[1]))

        return jax.lax.scan(step, moving, None, length=50)[1]

    for share, is_stable in ((0.85, True), (1.2, False)):
        velocity = largest_velocity(plant := build(share))
        assert (velocity[-1] < 2 * velocity[0]) == is_stable
        refused = pytest.raises(ValueError, match="`dt` must be short enough for the friction of `plant`")
        with contextlib.nullcontext() if is_stable else refused:
            check_damping(plant, DT)
    with refused:
        plants.simulate_plant(plant, jnp.zeros((2, plant.n_commands)), dt=DT)


TIME = DT * np.arange(1, N_STEPS + 1)[:, None]


def test_default_integration_of_an_undamped_mass_is_exact(float64):
    start = plants.PointMassState(jnp.array([0.1, 0.0]), jnp.array([0.5, -1.0]))
    force = jnp.array([3.0, -2.0])
    moved = plants.simulate_plant(
        plants.PointMass(1.5), jnp.broadcast_to(force, (N_STEPS, 2)), initial_state=start, dt=DT
    ).hand
    np.testing.assert_allclose(moved.velocity, start.velocity + force / 1.5 * TIME, atol=1e-14)
    expected = start.position + start.velocity * TIME + force / 3.0 * TIME**2
    np.testing.assert_allclose(moved.position, expected, atol=1e-14)


def test_damped_mass_approaches_its_terminal_velocity_exponentially(float64):
    mass, damping, force = 1.3, 4.0, jnp.array([3.0, -2.0])
    start = plants.PointMassState(jnp.zeros(2), jnp.array([0.5, 1.0]))
    commands = jnp.broadcast_to(force, (N_STEPS, 2))
    plant = plants.PointMass(mass, damping=damping)
    moved = exact_trajectory(plant, start, commands, jnp.zeros((N_STEPS, 2)), DT).hand
    terminal = force / damping
    decay = np.exp(-damping / mass * TIME)
    np.testing.assert_allclose(moved.velocity, terminal + (start.velocity - terminal) * decay, atol=1e-11)
    drift = terminal * TIME + (start.velocity - terminal) * mass / damping * (1 - decay)
    np.testing.assert_allclose(moved.position, drift, atol=1e-11)


def test_a_mass_in_a_cube_moves_in_three_dimensions(float64):
    plant = plants.PointMass(2.0, workspace=Workspace.around(jnp.array([0.0, 0.1, 0.2]), 0.2))
    moved = plants.simulate_plant(plant, jnp.broadcast_to(jnp.array([0.0, 0.0, 4.0]), (10, 3)), dt=DT)
    np.testing.assert_allclose(moved.hand.position[-1], [0.0, 0.1, 0.2 + 0.1**2], atol=1e-14)


def test_only_positions_that_are_no_numbers_are_out_of_reach():
    assert plants.PointMass().is_reachable(jnp.array([1e3, -1e3]))
    assert not plants.PointMass().is_reachable(jnp.array([0.0, jnp.nan]))


def test_a_substep_is_a_step_of_its_share(float64):
    whole, half = (plants.TwoLinkArm.arm26_skeleton(solver=diffrax.Heun(), n_substeps=n) for n in (2, 1))
    start = plants.JointState(jnp.array([0.8, 1.2]), jnp.array([-2.0, 4.0]))

    def moved(body, state, dt):
        return plants.advance(body, state, jnp.array([1.0, -0.5]), plants.Load(), dt=dt)

    twice = moved(half, moved(half, start, 0.1), 0.1)
    assert eqx.tree_equal(moved(whole, start, 0.2), twice, rtol=1e-13, atol=1e-13)


@eqx.filter_jit
def by_default(plant, commands):
    return plants.simulate_plant(plant, commands, dt=0.01).hand.position


RANDOM_COMMANDS = {
    "point mass": (plants.PointMass, 10.0),
    "damped mass": (PLANTS["damped mass"], 10.0),
    **{name: (build, 5.0) for name, build in ARMS.items()},
}


@pytest.mark.parametrize("name", every_nth(RANDOM_COMMANDS, 4))
def test_default_integration_stays_within_1_mm_under_random_commands(float64, getkey, name):
    """0.4 s at dt 0.01 with commands (N, N m) that jump at every step; some runs hit the joint stops."""
    build, strength = RANDOM_COMMANDS[name]
    plant = build()
    start, still = plant.rest_state(plant.workspace.center), jnp.zeros((40, 2))
    for key in jax.random.split(getkey(), 15):
        commands = jax.random.uniform(key, (40, 2), minval=-strength, maxval=strength)
        exact = exact_trajectory(plant, start, commands, still, 0.01).hand.position
        errors = jnp.linalg.norm(by_default(plant, commands) - exact, axis=-1)
        assert jnp.max(errors) < 1e-3
        assert jnp.linalg.norm(exact[-1] - plant.workspace.center) > 1e-3


OF_DIFFRAX = [(diffrax.Tsit5, 2), (diffrax.Euler, 1), (diffrax.Heun, 9), (diffrax.LeapfrogMidpoint, 2)]
"""The last is not a Runge-Kutta method: it takes its own steps."""


@pytest.mark.parametrize("solver, n_substeps", every_nth_row(OF_DIFFRAX, 3))
def test_solvers_are_those_of_diffrax(float64, solver, n_substeps):
    start, dt = {"x": jnp.array([0.4, -0.2]), "y": jnp.array(0.3)}, 0.5

    def rate(t, y):
        return {"x": jnp.sin(5 * t + 0.1) * y["x"] + y["y"] ** 2, "y": jnp.cos(y["x"][0] + t)}

    def ours(y):
        return integrate(rate, y, solver(), n_substeps, dt)

    def of_diffrax(y):
        term = diffrax.ODETerm(lambda t, y, args: rate(t, y))
        solution = diffrax.diffeqsolve(term, solver(), 0.0, dt, dt / n_substeps, y)
        return jax.tree.map(lambda leaf: leaf[-1], solution.ys)

    end, end_there = jax.jit(lambda y: (ours(y), of_diffrax(y)))(start)
    assert eqx.tree_equal(end, end_there, rtol=1e-13, atol=1e-13)
