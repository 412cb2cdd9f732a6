import contextlib

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from central_differences import assert_gradients_agree
from reference import exact_trajectory
from short_form import every_nth

from popsim import plants
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
        2,
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
