"""What is sensed of bodies with and without muscles."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop

import popsim
from popsim import plants, senses
from popsim.networks import NetworkState
from popsim.plants import JointState, MusculoskeletalState


@pytest.fixture
def arm(float64):
    return plants.arm26()


def state_of(plant, body):
    """A loop whose body is in a given state."""
    idle = NetworkState(jnp.zeros(1), jnp.zeros(plant.n_commands))
    state = popsim.states.LoopState.at_rest(*plants.base.evaluate_rest(plant, plant.workspace.center), idle)
    return dataclasses.replace(state, plant=body, hand=plant.hand(body))


def moving(arm, velocity=(1.0, -2.0), activation=0.5):
    joints = JointState(jnp.array([0.8, 1.5]), jnp.array(velocity))
    return state_of(arm, MusculoskeletalState(joints, jnp.full(6, activation), None))


felt = eqx.filter_jit(lambda sense, state, plant: sense(state, plant))


def test_joints_are_felt_with_muscles_and_without(arm):
    state = moving(arm)
    np.testing.assert_allclose(felt(senses.joints, state, arm), [0.8, 1.5, 1.0, -2.0])
    bare = state_of(arm.skeleton, state.plant.skeleton)
    np.testing.assert_allclose(felt(senses.joints, bare, arm.skeleton), [0.8, 1.5, 1.0, -2.0])
    np.testing.assert_array_equal(
        felt(senses.proprioception, bare, arm.skeleton), felt(senses.joints, bare, arm.skeleton)
    )


def test_muscle_stretch_is_that_of_the_fibres(arm):
    state = moving(arm)
    readings = arm.muscles(state.plant)
    stretch = felt(senses.muscle_stretch, state, arm)
    np.testing.assert_array_equal(stretch, felt(senses.proprioception, state, arm))
    l0, slack = arm.muscle.optimal_length, arm.muscle.tendon_length
    np.testing.assert_allclose(stretch[:6], (readings.length - slack) / l0)
    np.testing.assert_allclose(stretch[6:], readings.velocity / l0)


def test_golgi_organs_sense_force_and_not_length(arm):
    weak, strong = (felt(senses.muscle_force, moving(arm, activation=a), arm) for a in (0.2, 0.9))
    assert jnp.all(weak >= 0) and jnp.all(strong > weak)
    np.testing.assert_allclose(
        felt(senses.muscle_force, moving(arm), arm) * arm.muscle.max_isometric_force,
        arm.muscles(moving(arm).plant).force,
    )


def test_spindles_fire_more_the_longer_and_faster_the_fibre(arm):
    still = felt(senses.spindle_firing, moving(arm, (0.0, 0.0)), arm)
    stretched = felt(senses.spindle_firing, moving(arm, (3.0, 3.0)), arm)
    velocity = arm.muscles(moving(arm, (3.0, 3.0)).plant).fibre_velocity
    assert jnp.all((stretched > still) == (velocity > 0)) and jnp.all(still >= 0)
    millimetres = 1000 * arm.muscle.optimal_length
    readings = arm.muscles(moving(arm, (3.0, 3.0)).plant)
    by_hand = (
        82
        + 4.3 * jnp.sign(velocity) * jnp.abs(velocity * millimetres) ** 0.6
        + 2 * (readings.fibre_length - 1) * millimetres
        + 25
    )
    np.testing.assert_allclose(stretched, jnp.maximum(by_hand, 0), atol=0.1)


def test_spindles_have_gradients_at_rest(arm):
    def firing(velocity):
        return jnp.sum(felt(senses.spindle_firing, moving(arm, velocity), arm))

    assert jnp.all(jnp.isfinite(jax.jit(jax.grad(firing))(jnp.zeros(2))))


@pytest.mark.parametrize("own", [0.0, 0.02, 0.05])
def test_a_members_own_delay_is_as_long_as_a_delay_of_all(own, getkey):
    def sensed(**delays):
        model = relay_loop({"vision": popsim.SensoryChannel(popsim.vision, **delays)})
        return popsim.simulate(model, reach(), key=key).feedback["vision"]

    key = getkey()
    np.testing.assert_array_equal(sensed(delay=0.05, own_delay=own), sensed(delay=own))


def test_an_error_is_sensed_with_its_delay():
    task = popsim.tasks.CenterOutReaches(plants.PointMass().workspace, n_directions=2, duration=0.2)
    channels = {
        "error": popsim.SensoryChannel(
            lambda state, plant, inputs: inputs["target"] - state.cursor.position, 0.03
        )
    }
    trials, mass = task.validation_trials(), plants.PointMass()
    assert popsim.senses.network_input_names(trials, mass, channels) == {"target": 2, "error": 2}
    network = popsim.networks.GRUNetwork(4, 3, 2, key=jax.random.key(0))
    loop = popsim.SensorimotorLoop(network, mass, channels, dt=0.01)
    states = popsim.evaluate(loop, task, key=jax.random.key(1)).states
    before = jnp.concatenate(
        [jnp.repeat(trials.init.position[:, None], 4, axis=1), states.cursor.position], axis=1
    )
    np.testing.assert_array_equal(states.feedback["error"], trials.inputs["target"] - before[:, :20])
