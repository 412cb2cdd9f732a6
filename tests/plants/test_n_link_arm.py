"""A chain of segments: mechanics by automatic differentiation, against the arm of two and against physics."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth, mostly_in_full

from popsim.plants import (
    HardJointLimit,
    JointState,
    Load,
    NLinkArm,
    TwoLinkArm,
    simulate_plant,
    simulate_plant_adaptively,
)

pytestmark = pytest.mark.slow

THREE = {"mass": (1.5, 1.0, 0.5), "length": (0.3, 0.25, 0.15)}
FREE = {"joint_limits": np.array([[-100.0, 100.0]] * 3)}


def as_chain(arm, **options):
    names = ("mass", "length", "center_of_mass", "inertia", "joint_limits")
    return NLinkArm(**{name: getattr(arm, name) for name in names}, **options)


def random_state(key, n):
    one, other = jax.random.split(key)
    angle = jax.random.uniform(one, (n,), minval=0.3, maxval=1.5)
    return JointState(angle, jax.random.uniform(other, (n,), minval=-3, maxval=3))


def test_two_segments_are_the_two_link_arm(float64, getkey):
    arm = TwoLinkArm.arm26_skeleton()

    @eqx.filter_jit
    def moved(arm, key):
        state = random_state(key, 2)
        state = JointState(2 * state.angle, state.velocity)  # into the stops, too
        torque, force = jax.random.normal(key, (2, 2))
        laden = arm.vector_field(0.0, state, torque, Load(lambda hand: force, hand_mass=jnp.array(1.7)))
        return arm.dynamics(state, torque, force).velocity, arm.hand(state).velocity, laden.velocity

    for key in jax.random.split(getkey(), 10):
        for own, other in zip(moved(as_chain(arm), key), moved(arm, key), strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:`joint_limits` is in rad")  # no limits
def test_energy_is_conserved(float64, getkey):
    """Without gravity and with it."""

    def energy(arm, state):
        kinetic = state.velocity @ arm.inertia_matrix(state.angle) @ state.velocity / 2
        return kinetic - jnp.sum(arm.mass[:, None] * arm.centers(state.angle) * arm.gravity)

    @eqx.filter_jit
    def fall(arm, start):
        course = simulate_plant_adaptively(arm, jnp.zeros((20, 3)), initial_state=start, dt=0.05)
        energies = jax.vmap(lambda state: energy(arm, state))(course.state)
        return energies, energy(arm, start), course.coordinates

    for gravity in ((0.0, 0.0), (0.0, -9.81)):
        energies, first, coordinates = fall(
            NLinkArm(**THREE, **FREE, gravity=gravity), random_state(getkey(), 3)
        )
        np.testing.assert_allclose(energies, first, rtol=1e-7)
        assert jnp.ptp(coordinates) > 1


@pytest.mark.parametrize("n", mostly_in_full([2, 3, 5], short=[3]))
def test_the_hand_is_put_where_it_should_be_within_the_limits(float64, getkey, n):
    arm = NLinkArm(mass=[1.0] * n, length=[0.8 / n] * n)
    positions = jax.vmap(lambda key: arm.workspace.sample(key=key))(jax.random.split(getkey(), 20))
    assert jnp.all(jax.jit(jax.vmap(arm.is_reachable))(positions))
    rest = jax.jit(jax.vmap(arm.rest_state))(positions)
    np.testing.assert_allclose(jax.vmap(arm.hand)(rest).position, positions, atol=1e-8)
    assert jnp.all((rest.angle >= arm.joint_limits[:, 0]) & (rest.angle <= arm.joint_limits[:, 1]))


@pytest.mark.full
@pytest.mark.parametrize("n", [1, 3])
def test_a_straight_arm_at_rest_is_no_division_by_zero(float64, n):
    """Its Jacobian has no rank, and the hand is where it should be already."""
    arm = NLinkArm(mass=[1.0] * n, length=[0.8 / n] * n, posture=[0.0] * n)
    center = arm.workspace.center
    np.testing.assert_allclose(arm.rest_state(center).angle, 0.0, atol=1e-9)
    gradient = jax.jacobian(lambda position: arm.rest_state(position).angle)(center)
    assert jnp.all(jnp.isfinite(gradient))


def test_out_of_reach_is_said_and_never_nan(float64):
    arm = NLinkArm(**THREE)
    positions = jnp.array([[1.0, 0.0], [0.0, -0.5], [np.nan, 0.0]])
    assert not np.any(jax.jit(jax.vmap(arm.is_reachable))(positions))
    gradient = jax.jit(jax.jacobian(lambda position: arm.rest_state(position).angle))(positions[0])
    assert jnp.all(jnp.isfinite(gradient))


@pytest.mark.parametrize(
    "build",
    every_nth([TwoLinkArm.arm26_skeleton, lambda **stop: as_chain(TwoLinkArm.arm26_skeleton(), **stop)], 2),
)
def test_a_hard_stop_holds_the_joint_at_its_limit(float64, build):
    arm = build(joint_stop=HardJointLimit())
    torque = jnp.broadcast_to(jnp.array([3.0, 3.0]), (100, 2))
    course = simulate_plant(arm, torque, dt=0.01)
    assert jnp.all(course.coordinates <= arm.joint_limits[:, 1] + 1e-12)
    np.testing.assert_allclose(course.coordinates[-1], arm.joint_limits[:, 1])
    np.testing.assert_array_equal(course.velocities[-1], 0.0)
    back = simulate_plant(
        arm, -torque[:5], initial_state=jax.tree.map(lambda x: x[-1], course.state), dt=0.01
    )
    assert jnp.all(back.velocities[-1] < 0)
