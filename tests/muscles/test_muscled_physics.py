"""Bodies with muscles: physics that does not depend on how it is computed."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from muscled_bodies import BODIES, each_body
from short_form import every_nth

from popsim import muscles, plants
from popsim.plants import Load, MusculoskeletalPlant, MusculoskeletalState

pytestmark = pytest.mark.slow

FORCE = (1.5, -2.0)  # N


def push(hand):
    return jnp.array(FORCE)


@pytest.fixture(params=each_body())
def body(request, float64):
    """Every body with every law of muscle force that it takes."""
    return request.param()


@eqx.filter_jit
def moving(body, key):
    """A state within the joint limits and the range of the muscles, in motion, half activated."""
    start = body.rest_state(body.workspace.sample(key=key))
    coordinates, _ = body.skeleton.coordinates(start.skeleton)
    velocity = jax.random.uniform(key, coordinates.shape, minval=-2, maxval=2)
    skeleton = type(start.skeleton)(coordinates, velocity)
    activation = jax.random.uniform(key, (body.n_commands,), minval=0.2, maxval=0.8)
    length = body.path.length(coordinates)
    return MusculoskeletalState(skeleton, activation, body.muscle.init(activation, length))


@eqx.filter_jit
def balances(body, state, command):
    """By what it is called, what must be equal: power, moment arms, and how forces and torques accelerate."""
    skeleton, n_coordinates = body.skeleton, body.skeleton.coordinates(state.skeleton)[0].size
    coordinates, velocity = skeleton.coordinates(state.skeleton)
    torque = jnp.linspace(0.3, -0.7, n_coordinates)

    def energy(state):
        coordinates, velocity = skeleton.coordinates(state.skeleton)
        if isinstance(skeleton, plants.PointMass):
            return skeleton.mass * velocity @ velocity / 2
        return velocity @ skeleton.inertia_matrix(coordinates) @ velocity / 2

    def change_of_length(step):
        return (body.path.length(coordinates + step) - body.path.length(coordinates - step)) / 2e-6

    def rate(load):
        return body.vector_field(0.0, state, command, load)

    def bare(torque, force):
        return skeleton.dynamics(state.skeleton, torque, force)

    readings, pushed, still = body.muscles(state), rate(Load(push)), bare(jnp.zeros(2), jnp.zeros(2))
    _, change = jax.jvp(energy, (state,), (pushed,))
    pulled = -jnp.sum(readings.force * readings.velocity)
    friction = getattr(skeleton, "friction", jnp.zeros((2, 2)))
    power = pulled + push(None) @ body.hand(state).velocity - velocity @ friction @ velocity
    by_length = jax.vmap(change_of_length, out_axes=1)(1e-6 * jnp.eye(n_coordinates))
    by_push = [jax.tree.map(jnp.subtract, pushed.skeleton, rate(Load()).skeleton)]
    by_push += [jax.tree.map(jnp.subtract, bare(jnp.zeros(2), push(None)), still)]
    turned = [rate(Load(on_coordinates=lambda q, w: torque)).skeleton]
    by_muscles = -readings.force @ readings.moment_arms
    turned += [bare(by_muscles + torque, jnp.zeros(2))]
    laden = Load(push, hand_mass=jnp.array(1.7))
    carried = rate(laden).skeleton, skeleton.vector_field(0.0, state.skeleton, by_muscles, laden)
    pairs = {"power": (change, power), "moment arms": (readings.moment_arms, by_length)}
    return pairs | {"hand force": tuple(by_push), "torque": tuple(turned), "mass": carried}, pulled


def test_forces_and_muscles_act_as_the_skeleton_and_the_path_say(body, getkey):
    """The power of muscles and world becomes kinetic energy; moment arms are the derivative of lengths."""
    tolerances = {"moment arms": {"atol": 1e-8}, "hand force": {"atol": 1e-9}}
    for key in jax.random.split(getkey(), 3):
        pairs, pulled = balances(body, moving(body, key), jnp.full(body.n_commands, 0.5))
        assert abs(pulled) > 1e-3
        for name, (own, other) in pairs.items():
            tolerance = tolerances.get(name, {"rtol": 1e-9, "atol": 1e-9})
            for ours, theirs in zip(jax.tree.leaves(own), jax.tree.leaves(other), strict=True):
                np.testing.assert_allclose(ours, theirs, **tolerance, err_msg=name)


@pytest.mark.parametrize(
    ("name", "n_trials"),
    [("arm26, compliant Hill", 30)]
    + [
        pytest.param(name, 1000, marks=pytest.mark.full)
        for name in ("arm26, compliant Hill", "Li & Todorov arm", "point mass, rigid Hill")
    ],
)
def test_random_trials_stay_finite(name, n_trials, getkey):
    """2 s of commands that jump between 0 and 1 (N, N m) at every step, in single precision."""
    body = BODIES[name]()
    keys = jax.random.split(getkey(), n_trials)

    @jax.jit
    @jax.vmap
    def end(key):
        commands = jax.random.uniform(key, (200, body.n_commands)) > jax.random.uniform(key)
        course = plants.simulate_plant(body, jnp.asarray(commands, jnp.float32), dt=0.01)
        return jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf)), course)

    assert all(jnp.all(leaf) for leaf in jax.tree.leaves(end(keys)))


def test_a_muscle_joins_muscles_whose_parameters_are_shared(float64):
    skeleton, path = plants.TwoLinkArm.arm26_skeleton(), muscles.arm26_path()
    body = MusculoskeletalPlant(skeleton, path, muscles.ReluMuscle(100.0))
    more = body.with_muscle(path, muscles.ReluMuscle(50.0))
    assert more.n_commands == 12 and more.muscle_names[6] == "muscle 6"
    assert body.with_muscle(path, muscles.ReluMuscle(50.0), names="abcdef").muscle_names[6:] == (*"abcdef",)
    arms = more.muscles(more.rest_state(more.workspace.center)).moment_arms
    np.testing.assert_array_equal(arms[6:], arms[:6])
    np.testing.assert_array_equal(more.muscle.max_isometric_force, [100.0] * 6 + [50.0] * 6)


@pytest.mark.parametrize("law", every_nth([muscles.ReluMuscle, muscles.RigidTendonHillMuscle], 2))
def test_no_muscles_push_a_joint_far_beyond_its_limits(law):
    """All 64 combinations of muscles that are off or fully excited, for 2 s: by less than 20 degrees."""
    body = plants.arm26(law)
    on = jnp.array(list(itertools.product([0.0, 1.0], repeat=6)))

    @jax.jit
    @jax.vmap
    def angles(excitation):
        return plants.simulate_plant(body, jnp.broadcast_to(excitation, (200, 6)), dt=0.01).coordinates

    low, high = body.skeleton.joint_limits.T
    found = angles(on)
    beyond = jnp.maximum(low - found, found - high)
    assert jnp.rad2deg(jnp.max(beyond[:, 150:])) < 20
    assert jnp.rad2deg(jnp.max(beyond)) < 45
