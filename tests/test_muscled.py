"""Bodies with muscles: physics that does not depend on how it is computed."""

import functools
import itertools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from central_differences import assert_gradients_agree
from muscled_bodies import BODIES, FEW

import popsim
from popsim import muscles, plants
from popsim.plants import Load, Muscled, MuscledState

FORCE = (1.5, -2.0)  # N


def push(hand):
    return jnp.array(FORCE)


@pytest.fixture(params=FEW.values(), ids=FEW)
def body(request, float64):
    """Arms with rigid and compliant tendons, and without, and a mass."""
    return request.param()


def moving(body, key):
    """A state within the joint limits and the range of the muscles, in motion, half activated."""
    start = body.at_rest(body.workspace.sample(key=key))
    coordinates, _ = body.skeleton.coordinates(start.skeleton)
    velocity = jax.random.uniform(key, coordinates.shape, minval=-2, maxval=2)
    skeleton = type(start.skeleton)(coordinates, velocity)
    activation = jax.random.uniform(key, (body.n_commands,), minval=0.2, maxval=0.8)
    length = body.path.length(coordinates)
    return MuscledState(skeleton, activation, body.muscle.init(activation, length))


@eqx.filter_jit
def powers(body, state, command):
    """d/dt of the kinetic energy, and the power of the muscles, of the world, and of what brakes."""
    skeleton = body.skeleton

    def energy(state):
        coordinates, velocity = skeleton.coordinates(state.skeleton)
        if isinstance(skeleton, plants.PointMass):
            return skeleton.mass * velocity @ velocity / 2
        return velocity @ skeleton.inertia_matrix(coordinates) @ velocity / 2

    rate = body.vector_field(0.0, state, command, Load(push))
    _, change = jax.jvp(energy, (state,), (rate,))
    readings, (_, velocity) = body.muscles(state), skeleton.coordinates(state.skeleton)
    friction = getattr(skeleton, "friction", jnp.zeros((2, 2)))
    pulled = -jnp.sum(readings.force * readings.velocity)
    return change, pulled, push(None) @ body.hand(state).velocity, -velocity @ friction @ velocity


def test_the_power_of_the_muscles_becomes_kinetic_energy(body, getkey):
    for key in jax.random.split(getkey(), 5):
        change, pulled, pushed, braked = powers(body, moving(body, key), jnp.full(body.n_commands, 0.5))
        np.testing.assert_allclose(change, pulled + pushed + braked, rtol=1e-9, atol=1e-9)
        assert abs(pulled) > 1e-3


@eqx.filter_jit
def finely(body, state):
    commands = jnp.full((40, body.n_commands), 0.3)
    return plants.simulate_plant(body, commands, initial_state=state, dt=1e-4)


def test_velocities_are_what_lengths_do(body, getkey):
    """Of musculotendons and of fibres, by central differences along a movement."""
    course = finely(body, moving(body, getkey())).muscles
    for length, velocity in (
        (course.length, course.velocity),
        (course.fibre_length, course.fibre_velocity),
    ):
        by_differences = (length[2:] - length[:-2]) / 2e-4
        scale = np.abs(velocity).max()
        np.testing.assert_allclose(by_differences, velocity[1:-1], atol=2e-3 * scale + 1e-6)


def test_moment_arms_are_the_derivative_of_lengths(body, getkey):
    state = moving(body, getkey())
    coordinates, _ = body.skeleton.coordinates(state.skeleton)
    arms = body.muscles(state).moment_arms
    for axis in range(coordinates.size):
        step = jnp.zeros(coordinates.size).at[axis].set(1e-6)
        change = body.path.length(coordinates + step) - body.path.length(coordinates - step)
        np.testing.assert_allclose(arms[:, axis], change / 2e-6, atol=1e-8)


def test_activation_settles_at_its_drive_whatever_the_mechanics(body):
    drive = jnp.linspace(0.1, 0.9, body.n_commands)
    course = plants.simulate_plant(body, jnp.broadcast_to(drive, (100, body.n_commands)), dt=0.01)
    np.testing.assert_allclose(course.state.activation[-1], drive, atol=1e-6)
    rising = jnp.diff(course.state.activation, axis=0)
    assert jnp.all(rising >= -1e-12) and jnp.all(course.state.activation <= drive + 1e-12)


def test_a_hand_force_accelerates_as_the_skeleton_says(body, getkey):
    """With muscles, too: the difference that it makes is that of the bare skeleton."""
    state, command = moving(body, getkey()), jnp.full(body.n_commands, 0.5)
    with_force = body.vector_field(0.0, state, command, Load(push)).skeleton
    without = body.vector_field(0.0, state, command, Load()).skeleton
    none = jnp.zeros(2)
    bare = body.skeleton.dynamics(state.skeleton, none, push(None))
    resting = body.skeleton.dynamics(state.skeleton, none, none)
    for own, other, pushed, still in zip(
        *map(jax.tree.leaves, (with_force, without, bare, resting)), strict=True
    ):
        np.testing.assert_allclose(own - other, pushed - still, atol=1e-9)


def test_torques_of_the_world_act_on_the_coordinates(body, getkey):
    state, command = moving(body, getkey()), jnp.full(body.n_commands, 0.5)
    torque = jnp.array([0.3, -0.7])
    loaded = body.vector_field(0.0, state, command, Load(on_coordinates=lambda q, w: torque)).skeleton
    pulled = -body.muscles(state).force @ body.muscles(state).moment_arms
    by_hand = body.skeleton.dynamics(state.skeleton, pulled + torque, jnp.zeros(2))
    for own, other in zip(jax.tree.leaves(loaded), jax.tree.leaves(by_hand), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_gradients_agree_with_central_differences(body, getkey):
    """Of the end point, by excitations, parameters and initial state; away from kinks."""
    start = moving(body, getkey())
    off_the_kink = jax.tree.map(lambda length: 0.995 * length, start.fibre)  # a fibre at rest is on one
    start = MuscledState(start.skeleton, start.activation, off_the_kink)
    commands = 0.5 + 0.3 * jnp.sin(jnp.arange(6.0)[:, None] + jnp.arange(float(body.n_commands)))

    def end(inputs):
        body, start, commands = inputs
        course = plants.simulate_plant(body, commands, initial_state=start, dt=0.005)
        return (
            jnp.sum(course.hand.position[-1] * jnp.array([1.0, 0.7]))
            + jnp.sum(course.muscles.force[-1]) / 1e3
        )

    assert_gradients_agree(end, (body, start, commands), getkey(), steps=(1e-3, 1e-5, 1e-6, 1e-7))


SOLVERS = {"Euler": (diffrax.Euler, 1), "Heun": (diffrax.Heun, 2), "Bosh3": (diffrax.Bosh3, 3)}


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "order"), SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("law", [muscles.RigidTendonHillMuscle, muscles.ThelenMuscle, muscles.ReluMuscle])
def test_error_falls_with_the_order_of_the_solver(float64, law, solver, order):
    """In fast movement, within which no fibre turns round or passes its optimal length."""
    joints = plants.JointState(jnp.array([0.9, 1.6]), jnp.array([-3.0, -4.0]))
    start = MuscledState(joints, jnp.full(6, 0.4), None)
    commands = jnp.full((1, 6), 0.8)

    @eqx.filter_jit
    def end(body, simulate):
        course = simulate(body, commands, initial_state=start, dt=0.01)
        signs = jnp.sign(jnp.stack([course.muscles.fibre_velocity[0], body.muscles(start).fibre_velocity]))
        return jnp.concatenate([course.coordinates[0], course.velocities[0]]), signs

    def build(n_substeps):
        return plants.arm26(law, solver=solver(), n_substeps=n_substeps)

    exact, signs = end(build(1), plants.simulate_plant_adaptively)
    np.testing.assert_array_equal(signs[0], signs[1])
    coarse, fine = (jnp.linalg.norm(end(build(n), plants.simulate_plant)[0] - exact) for n in (24, 48))
    assert fine > 1e-13
    assert order - 0.15 < jnp.log2(coarse / fine) < order + 0.4


@pytest.mark.slow
@pytest.mark.parametrize("build", BODIES.values(), ids=BODIES)
def test_a_thousand_random_trials_stay_finite(build, getkey):
    """2 s of excitations from zero to one that jump at every step, in single precision."""
    body = build()
    keys = jax.random.split(getkey(), 1000)

    @jax.jit
    @jax.vmap
    def end(key):
        commands = jax.random.uniform(key, (200, body.n_commands)) > jax.random.uniform(key)
        course = plants.simulate_plant(body, jnp.asarray(commands, jnp.float32), dt=0.01)
        return jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf)), course)

    assert all(jnp.all(leaf) for leaf in jax.tree.leaves(end(keys)))


@pytest.mark.parametrize("drive", [0.0, 1.0])
def test_gradients_are_finite_at_the_ends_of_the_range(body, drive):
    def end(commands):
        return jnp.sum(plants.simulate_plant(body, commands, dt=0.01).hand.position[-1])

    gradient = jax.jit(jax.grad(end))(jnp.full((50, body.n_commands), drive))
    assert jnp.all(jnp.isfinite(gradient))


def test_a_muscle_is_added_in_one_call(float64):
    body = plants.arm26()
    more = body.with_muscle(
        muscles.paths.PolynomialPath(
            np.array([0.2]), np.array([[0.0, 0.02]]), np.zeros((1, 2)), np.array([np.pi / 2, 0.0])
        ),
        muscles.RigidTendonHillMuscle(
            max_isometric_force=np.array([500.0]),
            optimal_length=np.array([0.1]),
            tendon_length=np.array([0.1]),
        ),
        names=["flexor"],
    )
    assert more.n_commands == 7
    rest, both = body.at_rest(body.workspace.center), more.at_rest(body.workspace.center)
    np.testing.assert_allclose(more.muscles(both).length[:6], body.muscles(rest).length)
    np.testing.assert_allclose(more.muscles(both).moment_arms[6], [0.0, 0.02])
    course = plants.simulate_plant(more, jnp.zeros((20, 7)).at[:, 6].set(1.0), dt=0.01)
    others = plants.simulate_plant(body, jnp.zeros((20, 6)), dt=0.01)
    assert course.coordinates[-1, 1] < others.coordinates[-1, 1] - 0.1


def test_a_muscle_joins_muscles_whose_parameters_are_shared(float64):
    skeleton, path = plants.TwoLinkArm.arm26(), muscles.arm26_path()
    body = Muscled(skeleton, path, muscles.ReluMuscle(100.0))
    more = body.with_muscle(path, muscles.ReluMuscle(50.0))
    assert more.n_commands == 12 and more.muscle_names[6] == "muscle 6"
    np.testing.assert_array_equal(more.muscle.max_isometric_force, [100.0] * 6 + [50.0] * 6)


@pytest.mark.parametrize(
    "path",
    [
        muscles.paths.PolynomialPath(np.array([0.2]), np.array([[0.02]]), np.zeros((1, 1))),
        muscles.paths.ConstantMomentArmPath(np.array([0.2]), np.array([[0.02, 0.0, 0.01]])),
        muscles.paths.StraightPath(
            muscles.paths.ChainPlacement(np.ones(3)), [[(0, np.zeros(2)), (1, np.ones(2))]]
        ),
    ],
    ids=["polynomial", "constant moment arms", "straight"],
)
def test_a_path_over_another_body_is_refused(path):
    with pytest.raises(ValueError, match="`path` must run over a body of 2 coordinates"):
        Muscled(plants.TwoLinkArm.arm26(), path, muscles.ReluMuscle(100.0))


def test_a_law_with_a_state_gets_compliant_tendons(float64):
    law = functools.partial(muscles.CompliantTendonHillMuscle, tendon_strain=0.05)
    body, usual = plants.arm26(law), plants.arm26()
    assert body.n_substeps == 8 and usual.n_substeps == 2
    assert body.muscle.tendon_length[0] > usual.muscle.tendon_length[0]


@pytest.mark.slow
@pytest.mark.parametrize("law", [muscles.RigidTendonHillMuscle, muscles.ReluMuscle])
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


def test_muscles_and_paths_that_do_not_fit_are_refused(as_users_run):
    path = muscles.arm26_path()
    with pytest.raises(ValueError, match="`muscle` must have one number, or 6"):
        Muscled(
            plants.TwoLinkArm.arm26(),
            path,
            muscles.li_todorov_muscles().with_muscle(muscles.li_todorov_muscles()),
        )
    with pytest.raises(ValueError, match="`other`"):
        plants.arm26().with_muscle(path, muscles.arm26_muscles(muscles.ThelenMuscle), names="abcdef")
    with pytest.raises(ValueError, match="`muscle_names` must be 6"):
        Muscled(plants.TwoLinkArm.arm26(), path, muscles.arm26_muscles(), muscle_names=["biceps"])


def test_any_parameter_may_be_trained(float64):
    """The gradient reaches masses, lengths, forces, time constants and moment arms."""

    def end(body):
        return jnp.sum(plants.simulate_plant(body, jnp.full((20, 6), 0.4), dt=0.01).hand.position[-1])

    gradient = eqx.filter_grad(end)(plants.arm26())
    for leaf in (
        gradient.skeleton.mass,
        gradient.skeleton.length,
        gradient.muscle.max_isometric_force,
        gradient.muscle.optimal_length,
        gradient.muscle.activation.rise_time,
        gradient.path.linear,
    ):
        assert jnp.all(jnp.isfinite(leaf)) and jnp.any(leaf != 0)


def test_members_may_have_other_muscles(float64):
    members = popsim.member_grid(1, strength=[0.5, 1.0, 2.0])

    def build(*, key, strength):
        body = plants.arm26()
        return eqx.tree_at(
            lambda own: own.muscle.max_isometric_force, body, replace_fn=lambda own: own * strength
        )

    bodies = popsim.build_members(build, members, key=jax.random.key(0))

    @eqx.filter_jit
    @eqx.filter_vmap
    def torque(body):
        rest = body.at_rest(body.workspace.center)
        state = MuscledState(rest.skeleton, jnp.full(6, 0.5), None)
        return body.muscles(state).force

    found = torque(bodies)
    np.testing.assert_allclose(found[0] * 4, found[2])
