"""Forces of the world on the hand, and torques on the joints."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, reach, relay_loop, stacked

import popsim
from popsim import HandState, plants
from popsim.interventions import InterventionSchedule, external_load


def scheduled(**parameters):
    return {
        name.replace("_", " "): InterventionSchedule(values, jnp.array(True))
        for name, values in parameters.items()
    }


HAND = HandState(jnp.array([0.1, 0.3]), jnp.array([0.5, -0.2]))


@pytest.mark.parametrize(
    ("field", "parameters", "force"),
    [
        (popsim.interventions.ConstantForce(), jnp.array([1.0, 2.0]), [1.0, 2.0]),
        (popsim.interventions.ViscousField(), jnp.array([[-10.0, 0.0], [0.0, -20.0]]), [-5.0, 4.0]),
        (popsim.interventions.ViscousField(), jnp.array([[0.0, 3.0], [-3.0, 0.0]]), [-0.6, -1.5]),
        (
            popsim.interventions.ElasticField(),
            popsim.interventions.ElasticFieldParameters(100 * jnp.eye(2), jnp.array([0.0, 0.5])),
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
    field, torque = popsim.interventions.JointTorque(), jnp.array([0.5, -0.2])
    rest, command = plant.rest_state(plant.workspace.center), jnp.full(plant.n_commands, 0.1)
    skeleton = plant.skeleton if isinstance(plant, plants.MusculoskeletalPlant) else plant

    @eqx.filter_jit
    def acceleration(field):
        held = () if field is None else (field,)
        load = external_load(held, scheduled(joint_torque=torque), jnp.zeros(2))
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
        {},
        plant=plants.PointMass(2.0),
        command=(0.0, 0.0),
        interventions=(popsim.interventions.ConstantForce(),),
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
    held = (popsim.interventions.ConstantForce(), popsim.interventions.CurlField())
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


@pytest.mark.parametrize("field", [popsim.interventions.ViscousField(), popsim.interventions.JointTorque()])
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
    torque = popsim.interventions.JointTorque()
    schedule = {torque.name: InterventionSchedule(jnp.ones(2), jnp.ones(12, bool))}
    trials = stacked(reach(interventions=schedule))
    for plant in (None, plants.muscled_point_mass()):
        command = (0.0,) * (2 if plant is None else plant.n_commands)
        relay_loop({}, plant=plant, command=command, interventions=(torque,)).check(trials)
    loop = relay_loop({}, plant=Puck(), interventions=(torque,))
    loop.check(stacked(reach()))
    with pytest.raises(ValueError, match="`plant`.*torques.*Puck"):
        loop.check(trials)
