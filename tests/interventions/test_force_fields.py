"""Forces of the world on the hand, torques on the joints, a mass in the hand, and the walls of a channel."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, reach, relay_loop, stacked
from short_form import mostly_in_full

import popsim
from popsim import HandState, interventions, plants
from popsim.interventions import ForceChannel, ForceChannelParameters, InterventionSchedule, external_load
from popsim.plants import JointState, Load

HAND = HandState(jnp.array([0.1, 0.3]), jnp.array([0.5, -0.2]))


@pytest.mark.parametrize(
    ("field", "parameters", "force"),
    [
        (interventions.ConstantForce(), jnp.array([1.0, 2.0]), [1.0, 2.0]),
        (interventions.ViscousField(), jnp.array([[-10.0, 0.0], [0.0, -20.0]]), [-5.0, 4.0]),
        (interventions.ViscousField(), jnp.array([[0.0, 3.0], [-3.0, 0.0]]), [-0.6, -1.5]),
        (
            interventions.ElasticField(),
            interventions.ElasticFieldParameters(100 * jnp.eye(2), jnp.array([0.0, 0.5])),
            [-10.0, 20.0],
        ),
    ],
)
def test_forces_on_the_hand(field, parameters, force):
    np.testing.assert_allclose(field.load(parameters).hand_force(HAND), force, rtol=1e-6)
    schedule = {field.name: InterventionSchedule(parameters, jnp.array(True))}
    load = external_load((field,), schedule, jnp.ones(2))
    np.testing.assert_allclose(load.hand_force(HAND), 1 + np.array(force), rtol=1e-6)
    off = {field.name: InterventionSchedule(parameters, jnp.array(False))}
    np.testing.assert_array_equal(external_load((field,), off, jnp.ones(2)).hand_force(HAND), 1.0)


@pytest.mark.parametrize("build", [plants.TwoLinkArm.arm26_skeleton, plants.arm26])
def test_a_torque_on_the_joints_accelerates_them(float64, build):
    """With muscles and without, by M^-1 torque more than without the load."""
    plant = build()
    field, torque = interventions.JointTorque(), jnp.array([0.5, -0.2])
    rest, command = plant.rest_state(plant.workspace.center), jnp.full(plant.n_commands, 0.1)
    skeleton = plant.skeleton if isinstance(plant, plants.MusculoskeletalPlant) else plant

    @eqx.filter_jit
    def acceleration(field):
        held = () if field is None else (field,)
        schedule = {"joint torque": InterventionSchedule(torque, jnp.array(True))}
        load = external_load(held, schedule, jnp.zeros(2))
        rate = plant.vector_field(0.0, rest, command, load)
        return (rate.skeleton if isinstance(plant, plants.MusculoskeletalPlant) else rate).velocity

    added = acceleration(field) - acceleration(None)
    angle = skeleton.joint_angles(plant.workspace.center)
    np.testing.assert_allclose(skeleton.inertia_matrix(angle) @ added, torque, rtol=1e-9)


def test_a_pulse_is_a_constant_force_for_a_few_steps(float64, getkey):
    """It leaves a mass of 2 kg with its impulse, and is recorded while it lasts."""
    force, active = np.array([4.0, -2.0]), (np.arange(12) >= 3) & (np.arange(12) < 7)
    pulse = {"constant force": InterventionSchedule(jnp.array(force), jnp.asarray(active))}
    loop = relay_loop(
        {}, plant=plants.PointMass(2.0), command=(0.0, 0.0), interventions=(interventions.ConstantForce(),)
    )
    states = popsim.simulate(loop, reach(interventions=pulse), key=getkey())
    np.testing.assert_array_equal(states.external_force, active[:, None] * force)
    impulse = np.cumsum(active)[:, None] * DT * force
    np.testing.assert_allclose(states.hand.velocity, impulse / 2.0, rtol=1e-12)


def test_a_mass_in_a_curl_field_goes_round_a_circle_of_radius_m_v_over_b(float64, getkey):
    """3.846 cm at 0.5 m/s, 1 kg and 13 N s/m, and round in 2 pi m / b.

    By Heun's method, z = b dt / m, each step turns the velocity by atan(z / (1 - z²/2)) and makes it larger
    by sqrt(1 + z⁴/4); the hand is at m v / b from one center all the time.
    """
    b, speed, n_steps = 13.0, 0.5, 98
    z, step = b * DT, np.arange(n_steps)
    schedules = {
        "constant force": InterventionSchedule(jnp.array([speed / DT, 0.0]), jnp.asarray(step == 0)),
        "curl field": InterventionSchedule(jnp.array(b), jnp.asarray(step > 0)),
    }
    held = (interventions.ConstantForce(), interventions.CurlField())
    loop = relay_loop({}, plant=plants.PointMass(), command=(0.0, 0.0), interventions=held)
    hand = popsim.simulate(loop, reach(n_steps, interventions=schedules), key=getkey()).hand
    speeds = np.linalg.norm(hand.velocity, axis=1)
    np.testing.assert_allclose(speeds, speed * (1 + z**4 / 4) ** (step / 2), rtol=1e-12)
    center = np.asarray(hand.position[0]) - [0.0, speed / b]
    np.testing.assert_allclose(np.linalg.norm(hand.position - center, axis=1), speeds / b, rtol=1e-12)
    angles = np.unwrap(np.arctan2(hand.velocity[:, 1], hand.velocity[:, 0]))
    np.testing.assert_allclose(np.diff(angles), -np.arctan2(z, 1 - z**2 / 2), rtol=1e-12)  # clockwise
    np.testing.assert_allclose(2 * np.pi / -np.diff(angles) * DT, 2 * np.pi / b, rtol=z**2 / 4)
    np.testing.assert_allclose(np.linalg.norm(hand.position - center, axis=1), 0.03846, rtol=4e-3)


@pytest.mark.parametrize("field", [interventions.ViscousField(), interventions.JointTorque()])
def test_parameters_of_another_shape_are_refused_by_name(field, as_users_run):
    with pytest.raises(ValueError, match=f"parameter of '{field.name}' must have shape"):
        load = field.load(jnp.ones(3))
        if load.on_coordinates is not None:
            load.on_coordinates(jnp.zeros(2), jnp.zeros(2))
        load.hand_force(HAND)


class Puck(plants.PointMass):
    """A mass that moves as it is commanded and pushed, whatever torques act on its coordinates."""

    def vector_field(self, t, state, command, load):
        return self.dynamics(state, command, load.hand_force(self.hand(state)))


def test_a_body_on_which_torques_would_not_act_is_refused():
    torque = interventions.JointTorque()
    schedule = {torque.name: InterventionSchedule(jnp.ones(2), jnp.ones(12, bool))}
    trials = stacked(reach(interventions=schedule))
    for plant in (None, plants.muscled_point_mass()):
        command = (0.0,) * (2 if plant is None else plant.n_commands)
        relay_loop({}, plant=plant, command=command, interventions=(torque,)).check(trials)
    loop = relay_loop({}, plant=Puck(), interventions=(torque,))
    loop.check(stacked(reach()))
    with pytest.raises(ValueError, match="`plant`.*torques.*Puck"):
        loop.check(trials)


MASS = 1.7  # kg
PUSH = (3.0, -2.0)  # N


def laden(mass=MASS):
    return Load(lambda hand: jnp.array(PUSH), hand_mass=jnp.array(mass))


def carrying(mass, n_steps=12, since=0):
    active = jnp.arange(n_steps) >= since
    return {"load mass": InterventionSchedule(jnp.array(mass), active)}


def test_a_mass_that_carries_a_mass_is_their_sum(float64, getkey):
    """While they are pushed by the command and by a field."""
    field = {"curl field": InterventionSchedule(jnp.array(6.0), jnp.ones(12, bool))}
    held = (interventions.LoadMass(), interventions.CurlField())

    def course(mass, interventions):
        loop = relay_loop({}, plant=plants.PointMass(mass, damping=1.5), interventions=held)
        return popsim.simulate(loop, reach(interventions=interventions), key=getkey())

    one, both = course(1.0, field | carrying(1.2)), course(2.2, field)
    np.testing.assert_allclose(one.hand.position, both.hand.position, rtol=1e-12)
    np.testing.assert_allclose(one.external_force, both.external_force, rtol=1e-10)


def test_a_two_link_arm_carries_a_mass_as_its_equation_says(arm):
    """(M + m J'J) dw/dt = J' F - h - B w - m J' (dJ/dt) w, against torques as well."""
    state, torque = JointState(jnp.array([0.7, 1.4]), jnp.array([2.0, -3.0])), jnp.array([1.0, 0.4])

    @eqx.filter_jit
    def rate_and_equation(arm):
        jacobian = arm.jacobian(state.angle)
        turning = jax.jvp(arm.jacobian, (state.angle,), (state.velocity,))[1] @ state.velocity
        pull = torque + jacobian.T @ (jnp.array(PUSH) - MASS * turning)
        pull = pull - arm.coriolis(state) - arm.friction @ state.velocity
        inertia = arm.inertia_matrix(state.angle) + MASS * jacobian.T @ jacobian
        return arm.vector_field(0.0, state, torque, laden()), jnp.linalg.solve(inertia, pull)

    rate, expected = rate_and_equation(arm)
    np.testing.assert_allclose(rate.velocity, expected, rtol=1e-10)
    np.testing.assert_array_equal(rate.angle, state.velocity)


class Slider(plants.PointMass):
    """A hand in honey, which no force accelerates: its velocity is the force on it."""

    def dynamics(self, state, force, external_force):
        return plants.PointMassState(force + external_force, jnp.zeros(2))


def test_a_body_that_would_not_feel_the_mass_is_refused():
    trials = stacked(reach(interventions=carrying(1.0)))
    relay_loop({}, interventions=(interventions.LoadMass(),)).check(trials)
    loop = relay_loop({}, plant=Slider(), interventions=(interventions.LoadMass(),))
    loop.check(stacked(reach()))
    with pytest.raises(ValueError, match="`plant`.*mass.*Slider"):
        loop.check(trials)


def channel(parameters, n_steps=20):
    return {"force channel": InterventionSchedule(parameters, jnp.ones(n_steps, bool))}


def test_the_walls_push_towards_the_line_and_not_along_it():
    """F = -(K d + B dd/dt) n, with d the signed way from the line along its normal n."""
    parameters = ForceChannelParameters([0.1, 0.0], [0.6, 0.8], stiffness=1500.0, damping=40.0)
    normal, hand = np.array([-0.8, 0.6]), HandState(jnp.array([0.25, 0.1]), jnp.array([0.3, -0.2]))
    d, rate = normal @ (hand.position - parameters.start), normal @ hand.velocity
    force = ForceChannel().load(parameters).hand_force(hand)
    np.testing.assert_allclose(force, -(1500 * d + 40 * rate) * normal, rtol=1e-5)
    assert abs(d) > 0.01 and abs(rate) > 0.1
    for along in (0.0, 0.7):
        on_line = HandState(parameters.start + along * parameters.direction, along * parameters.direction)
        np.testing.assert_allclose(ForceChannel().load(parameters).hand_force(on_line), 0.0, atol=1e-3)
    tube = ForceChannelParameters(np.zeros(3), [0.0, 0.0, 1.0])  # in space
    hand = HandState(jnp.array([0.01, -0.02, 0.3]), jnp.array([0.1, 0.0, 0.5]))
    force = ForceChannel().load(tube).hand_force(hand)
    np.testing.assert_allclose(force, [-20 - 5, 40, 0], rtol=1e-6)


def test_a_channel_goes_from_start_to_target_of_each_trial():
    starts, targets = jnp.zeros((2, 2)), jnp.array([[0.1, 0.0], [0.03, 0.04]])
    stacked = ForceChannelParameters.between(starts, targets, stiffness=1000.0)
    np.testing.assert_allclose(stacked.direction, [[1, 0], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_array_equal(stacked.stiffness, [1000.0, 1000.0])
    np.testing.assert_array_equal(stacked.damping, [50.0, 50.0])


def test_a_mass_swings_against_the_wall_as_in_closed_form(float64, getkey):
    """And the force that is recorded is that of the wall at the start of each step."""
    mass, start = 1.0, 0.01
    loop = relay_loop(
        {}, plant=plants.PointMass(mass, n_substeps=50), command=(0.0, 0.0), interventions=(ForceChannel(),)
    )
    walls = channel(ForceChannelParameters([0.0, 0.0], [1.0, 0.0]))
    states = popsim.simulate(loop, reach(20, start=(0.0, start), interventions=walls), key=getkey())
    rate = np.roots([mass, 50.0, 2000.0])[0]
    time = DT * np.arange(1, 21)
    expected = start * (np.exp(rate * time) * (1 + 1j * rate.real / rate.imag)).real
    np.testing.assert_allclose(states.hand.position[:, 1], expected, atol=1e-6)
    force = -2000 * states.hand.position[:-1, 1] - 50 * states.hand.velocity[:-1, 1]
    np.testing.assert_allclose(states.external_force[1:, 1], force, rtol=1e-12)
    np.testing.assert_array_equal(states.external_force[0], [0.0, -2000 * start])


TORQUES = (1.5, -1.0)
BODIES = {
    "point mass": (plants.PointMass, (10.0, -8.0)),
    "li_todorov skeleton": (functools.partial(plants.TwoLinkArm.li_todorov, n_substeps=4), TORQUES),
    "arm26": (plants.arm26, (0.2, 0.0, 0.1, 0.0, 0.0, 0.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_in_full(BODIES, short=("point mass",)))
def test_the_substeps_that_the_docstring_names_are_enough(float64, getkey, name):
    """Within 5 % of the greatest force of what 32 substeps give, across eight channels."""
    build, command = BODIES[name]
    starts = jnp.broadcast_to(build().workspace.center, (8, 2))
    angles = jnp.linspace(0, jnp.pi, 8, endpoint=False)
    directions = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)

    def forces(plant):
        loop = relay_loop({}, plant=plant, command=command, interventions=(ForceChannel(),))

        def run(start, direction):
            walls = channel(ForceChannelParameters(start, direction))
            return popsim.simulate(loop, reach(20, start=start, interventions=walls), key=jax.random.key(0))

        return jax.jit(jax.vmap(lambda *walls: run(*walls).external_force))(starts, directions)

    exact = forces(build(n_substeps=32))
    assert jnp.max(jnp.abs(exact)) > 1.0
    np.testing.assert_allclose(forces(build()), exact, atol=0.05 * jnp.max(jnp.abs(exact)))
