"""What a network received in a trial, given to it again, makes the same activity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
import popsim.senses
from popsim.analysis import dynamics, neural_activity
from popsim.networks import LSTMNetwork, unit_activity


@pytest.mark.slow
def test_a_network_of_two_states_in_a_loop_follows_what_it_received_and_is_analysed():
    plant = popsim.plants.PointMass()
    task = popsim.tasks.CenterOutReaches(plant.workspace, duration=0.2, dt=0.02)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.04)}
    trials = task.validation_trials()
    n_inputs = popsim.n_network_inputs(trials, plant, channels)

    def build(key):
        network = LSTMNetwork(n_inputs, 5, plant.n_commands, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, dt=0.02)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(1)).states
    received = dynamics.received_inputs(ensemble, states, trials)
    assert {name: values.shape for name, values in received.items()} == {
        "target": (2, 8, 10, 2),
        "vision": (2, 8, 10, 4),
    }
    np.testing.assert_array_equal(received["vision"], states.feedback["vision"])
    hidden = np.concatenate(states.network.hidden, axis=-1).astype(np.float64)
    for member in range(2):
        model = popsim.member(ensemble, member)
        follow = jax.vmap(lambda inputs, own, model=model: dynamics.network_dynamics(model, own, inputs))
        last = {name: values[member, :, -1].astype("f4") for name, values in received.items()}
        following = follow(last, hidden[member, :, -2].astype("f4"))
        np.testing.assert_allclose(following, hidden[member, :, -1], atol=1e-6)
    found = neural_activity.principal_components(unit_activity(ensemble, states), n_components=2)
    assert found.projections.shape == (2, 8, 10, 2)
    visited = hidden.astype("f4").reshape(2, -1, 10)
    inputs = {name: values[:, 0, 0] for name, values in received.items()}
    points = dynamics.find_fixed_points(ensemble, visited[:, :20], inputs=inputs).fixed
    jacobians = dynamics.state_jacobians(ensemble, visited[:, :3], inputs=inputs)
    assert points.state.shape[-1] == 10 and jacobians.shape == (2, 3, 10, 10)


def loop_and_task():
    """An ensemble whose input is after its sense in the alphabet, yet before it in the network's vector."""
    plant = popsim.plants.PointMass()
    task = popsim.tasks.CenterOutReaches(plant.workspace, duration=0.2, dt=0.02)
    channels = {"body": popsim.SensoryChannel(popsim.proprioception)}

    def build(key):
        n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)
        network = popsim.networks.LeakyRNN(n_inputs, 3, plant.n_commands, tau=0.1, dt=0.02, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, dt=0.02)

    return popsim.make_ensemble(build, 2, key=jax.random.key(0)), task, plant, channels


@pytest.mark.slow
def test_constant_inputs_are_taken_by_name(as_users_run):
    ensemble, task, plant, channels = loop_and_task()
    names = popsim.senses.network_input_names(task.validation_trials(), plant, channels)
    assert names == {"target": 2, "body": 4} and list(names) == ["target", "body"]
    target, body = np.array([0.3, -0.2]), np.array([1.0, 2.0, 3.0, 4.0])

    def rollout(inputs, model=ensemble):
        return dynamics.rollout(model, np.zeros((2, 1, 3)), 1, inputs=inputs)

    found = rollout({"body": body, "target": target})
    vector = np.concatenate([target, body])
    network = popsim.member(ensemble, 0).network
    following = network.step(jnp.asarray(vector, jnp.float32), jnp.zeros(3), key=jax.random.key(0))
    np.testing.assert_allclose(found[0, 0, 0], following, rtol=1e-5)
    np.testing.assert_array_equal(rollout({"all": vector}, ensemble.network), found)
    for bad, model, message in (
        (vector, ensemble, "`inputs` must be by name"),
        ({"target": target}, ensemble, "the senses \\['body'\\] by name"),
        ({"target": target, "vision": body}, ensemble, "the senses \\['body'\\] by name"),
        ({"target": body, "body": body}, ensemble, "`inputs` must be 6 numbers, got"),
        ({}, ensemble, "by name, got \\[\\]"),
        ({"target": target, "body": body}, ensemble.network, "must have one name: .* give the model"),
        (vector, ensemble.network, "`inputs` must be by name"),
    ):
        with pytest.raises(ValueError, match=message):
            rollout(bad, model)
