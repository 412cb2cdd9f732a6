"""The arm against mechanics: what it must obey whatever its parameters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import mostly_in_full

from popsim.plants import JointState, TwoLinkArm


def joints(angle, velocity):
    return JointState(jnp.array(angle), jnp.array(velocity))


def postures(arm, key, n=50):
    """Angles within the joint limits, off their ends."""
    low, high = arm.joint_limits.T
    return jax.random.uniform(key, (n, 2), minval=low + 0.02, maxval=high - 0.02)


def kinetic_energy(arm, state):
    return state.velocity @ arm.inertia_matrix(state.angle) @ state.velocity / 2


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, 0, 0))
def power_and_its_sources(arm, angle, draws):
    velocity, torque, force = 4 * draws
    state = JointState(angle, velocity)
    rate = arm.dynamics(state, torque, force)
    _, power = jax.jvp(lambda state: kinetic_energy(arm, state), (state,), (rate,))
    given = torque @ velocity + force @ arm.hand(state).velocity - velocity @ arm.friction @ velocity
    return power, given


def test_energy_changes_by_the_power_of_torque_hand_force_and_friction(arm, getkey):
    arm = eqx.tree_at(lambda arm: arm.friction, arm, jnp.array([[0.05, 0.02], [0.02, 0.04]]))
    draws = jax.random.normal(getkey(), (50, 3, 2))
    power, given = power_and_its_sources(arm, postures(arm, getkey()), draws)
    np.testing.assert_allclose(power, given, atol=1e-10)


def test_li_todorov_inertia_is_the_published_one(float64):
    elbow = 1.1
    matrix = TwoLinkArm.li_todorov().inertia_matrix(jnp.array([0.3, elbow]))
    c = np.cos(elbow)
    np.testing.assert_allclose(matrix, [[0.16 + 0.096 * c, 0.045 + 0.048 * c], [0.045 + 0.048 * c, 0.045]])


@pytest.mark.parametrize(
    "name, eigenvalues, ratio", [("li_todorov", (0.783, 2.420), 3.092), ("motornet", (0.433, 0.958), 2.211)]
)
def test_mobility_ellipse_is_the_known_one_across_the_forearm(float64, name, eigenvalues, ratio):
    arm = getattr(TwoLinkArm, name)()
    angle = jnp.deg2rad(jnp.array([45.0, 90.0]))
    jacobian = arm.jacobian(angle)
    values, axes = np.linalg.eigh(jacobian @ jnp.linalg.inv(arm.inertia_matrix(angle)) @ jacobian.T)
    np.testing.assert_allclose(values, eigenvalues, atol=5e-4)
    np.testing.assert_allclose(values[1] / values[0], ratio, atol=5e-4)
    forearm = np.array([np.cos(angle.sum()), np.sin(angle.sum())])
    np.testing.assert_allclose(axes[:, 1] @ forearm, 0.0, atol=1e-12)


def test_jacobian_is_the_derivative_of_the_hand_position(arm, getkey):
    angles = postures(arm, getkey())
    both = jax.vmap(lambda angle: (arm.jacobian(angle), jax.jacobian(arm.hand_position)(angle)))
    np.testing.assert_allclose(*jax.jit(both)(angles), atol=1e-15)


def test_joint_angles_invert_the_hand_position_over_the_whole_joint_range(arm, getkey):
    angles = postures(arm, getkey(), n=100)
    positions = jax.jit(jax.vmap(arm.hand_position))(angles)
    back = jax.vmap(lambda position: (arm.joint_angles(position), arm.is_reachable(position)))
    found, is_reachable = jax.jit(back)(positions)
    np.testing.assert_allclose(found, angles, atol=1e-9)
    assert jnp.all(is_reachable)
    assert jnp.all(positions[:, 0].min() < -0.2)


def test_workspace_is_a_20_cm_square_around_the_hand_at_45_and_90_degrees(arm):
    np.testing.assert_allclose(arm.joint_angles(arm.workspace.center), jnp.deg2rad(jnp.array([45.0, 90.0])))
    np.testing.assert_allclose(arm.workspace.half_widths, 0.1)
    corners = jnp.stack(jnp.meshgrid(*jnp.stack([arm.workspace.low, arm.workspace.high]).T)).reshape(2, 4).T
    assert jnp.all(jax.vmap(arm.is_reachable)(corners))


OUT_OF_REACH = {"too far": (0.5, 0.5), "too near": (0.01, 0.0), "shoulder too far": (-0.54, 0.02)}


@eqx.filter_jit
def rest_and_its_derivatives(arm, position):
    rest = arm.rest_state(position)
    rate = arm.dynamics(rest, jnp.zeros(2), jnp.zeros(2))
    return rest, rate, jax.jacobian(lambda position: arm.hand(arm.rest_state(position)))(position)


@pytest.mark.parametrize("position", OUT_OF_REACH.values(), ids=OUT_OF_REACH)
def test_out_of_reach_is_said_and_never_nan(arm, position):
    assert not arm.is_reachable(jnp.array(position))
    finite = jax.tree.map(jnp.isfinite, rest_and_its_derivatives(arm, jnp.array(position)))
    assert jax.tree.all(jax.tree.map(jnp.all, finite))


def at_elbow(arm, angle, velocity=0.0):
    return stop_torque(arm, joints([1.0, angle], [0.0, velocity]))[1]


def stop_torque(arm, state):
    return arm.joint_stop.torque(state.angle, state.velocity, arm.joint_limits)


def test_joint_stop_is_absent_within_the_limits(arm, getkey):
    velocity = jnp.array([3.0, -3.0])
    stop = jax.vmap(lambda angle: stop_torque(arm, JointState(angle, velocity)))(postures(arm, getkey()))
    np.testing.assert_array_equal(stop, 0.0)


@pytest.mark.parametrize("side", [0, 1], ids=["lowest", "highest"])
def test_joint_stop_pushes_back_and_brakes(arm, side):
    limit, outward = arm.joint_limits[1, side], 2 * side - 1
    beyond = limit + outward * jnp.array([0.05, 0.1, 0.2, 0.4])
    at_velocity = jax.vmap(lambda angle, velocity: at_elbow(arm, angle, velocity), (0, None))
    still, *moving = jax.jit(jax.vmap(at_velocity, (None, 0)))(beyond, jnp.array([0.0, -3.0, 3.0]))
    push = -outward * still
    assert jnp.all(push > 0) and jnp.all(jnp.diff(push) > 0)
    for velocity, torque in zip((-3.0, 3.0), moving, strict=True):
        assert jnp.all((torque + outward * push) * velocity < 0)


SLOPE = jax.grad(at_elbow, argnums=1)
STOPS = [eqx.filter_jit(stop) for stop in (at_elbow, SLOPE, jax.grad(SLOPE, argnums=1))]


@pytest.mark.parametrize("side", [0, 1], ids=["lowest", "highest"])
@pytest.mark.parametrize("beyond", mostly_in_full([0.0, 0.3], [0.0]), ids=["first touch", "full contact"])
def test_joint_stop_is_twice_continuously_differentiable(arm, side, beyond):
    seam = arm.joint_limits[1, side] + (2 * side - 1) * beyond
    for order, stop in enumerate(STOPS):
        below, above = stop(arm, seam - 1e-9, 2.0), stop(arm, seam + 1e-9, 2.0)
        np.testing.assert_allclose(below, above, atol=1e-4 if order == 2 else 1e-5)
        assert jnp.isfinite(stop(arm, seam, 2.0))
