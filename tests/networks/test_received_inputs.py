"""What a network received in a trial, given to it again, makes the same activity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth

import popsim
import popsim.senses
from popsim.analysis import dynamics


@pytest.mark.slow
def test_a_network_in_a_loop_follows_what_it_received():
    plant = popsim.plants.PointMass()
    task = popsim.tasks.CenterOutReaches(plant.workspace, duration=0.2, dt=0.02)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.04)}
    trials = task.validation_trials()
    n_inputs = popsim.n_network_inputs(trials, plant, channels)

    def build(key):
        network = popsim.networks.GRUNetwork(n_inputs, 5, plant.n_commands, key=key)
        return popsim.SensorimotorLoop(network, plant, channels, dt=0.02)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(1)).states
    received = dynamics.received_inputs(ensemble, states, trials)
    assert {name: values.shape for name, values in received.items()} == {
        "target": (2, 8, 10, 2),
        "vision": (2, 8, 10, 4),
    }
    np.testing.assert_array_equal(received["vision"], states.feedback["vision"])
    hidden = np.asarray(states.network.hidden, np.float64)
    for member in range(2):
        model = popsim.member(ensemble, member)
        follow = jax.vmap(lambda inputs, own, model=model: dynamics.network_dynamics(model, own, inputs))
        last = {name: values[member, :, -1].astype("f4") for name, values in received.items()}
        following = follow(last, hidden[member, :, -2].astype("f4"))
        np.testing.assert_allclose(following, hidden[member, :, -1], atol=1e-6)


def test_starts_of_another_size_are_refused():
    def build(key):
        return popsim.networks.LeakyRNN(2, 3, 1, tau=2.0, dt=1.0, key=key)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    with pytest.raises(ValueError, match="`hidden` must be 3 units, got shape"):
        dynamics.find_fixed_points(ensemble, np.zeros((2, 4, 5)))


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


def calls(ensemble):
    """Every function of dynamics that takes constant inputs."""
    states = np.zeros((2, 4, 3))
    one = popsim.member(ensemble, 0)
    return {
        "find": lambda inputs: dynamics.find_fixed_points(ensemble, states, inputs=inputs).fixed.state,
        "rollout": lambda inputs: dynamics.rollout(ensemble, states, 3, inputs=inputs),
        "state": lambda inputs: dynamics.state_jacobians(ensemble, states, inputs=inputs),
        "input": lambda inputs: np.concatenate(
            [*dynamics.input_jacobians(ensemble, states, inputs).values()], axis=-1
        ),
        "step": lambda inputs: (
            dynamics.network_dynamics(
                one, jnp.zeros(3), {name: jnp.asarray(vector, jnp.float32) for name, vector in inputs.items()}
            )
            if isinstance(inputs, dict)
            else dynamics.network_dynamics(one, jnp.zeros(3), jnp.asarray(inputs, jnp.float32))
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("call", every_nth(["find", "rollout", "state", "input", "step"], 3))
def test_constant_inputs_are_taken_by_name(call, as_users_run):
    ensemble, task, plant, channels = loop_and_task()
    names = popsim.senses.network_input_names(task.validation_trials(), plant, channels)
    assert names == {"target": 2, "body": 4} and list(names) == ["target", "body"]
    target, body = np.array([0.3, -0.2]), np.array([1.0, 2.0, 3.0, 4.0])
    function = calls(ensemble)[call]
    one, other = function({"target": target, "body": body}), function({"body": body, "target": target})
    if call != "input":
        np.testing.assert_array_equal(one, other)
    vector = np.concatenate([target, body])
    weights = popsim.member(ensemble, 0).network
    following = weights.step(jnp.asarray(vector, jnp.float32), jnp.zeros(3), key=jax.random.key(0))
    if call == "step":
        np.testing.assert_allclose(one, following, rtol=1e-6)
    if call == "rollout":
        np.testing.assert_allclose(one[0, 0, 0], following, rtol=1e-5)
    for bad, message in (
        (vector, "`inputs` must be by name"),
        ({"target": target}, "the senses \\['body'\\] by name"),
        ({"target": target, "vision": body}, "the senses \\['body'\\] by name"),
        ({"target": body, "body": body}, "`inputs` must be 6 numbers, got 4 of"),
        ({}, "by name, got \\[\\]"),
    ):
        with pytest.raises(ValueError, match=message):
            function(bad)


def test_a_network_by_itself_has_one_vector(as_users_run):
    ensemble = loop_and_task()[0].network
    find = dynamics.find_fixed_points
    both = {"target": np.zeros(2), "body": np.zeros(4)}
    with pytest.raises(ValueError, match="must have one name: .* give the model that composes them"):
        find(ensemble, np.zeros((2, 4, 3)), inputs=both)
    with pytest.raises(ValueError, match="`inputs` must be by name"):
        find(ensemble, np.zeros((2, 4, 3)), inputs=np.zeros(6))
    assert find(ensemble, np.zeros((2, 4, 3)), inputs={"all": np.zeros(6)}).fixed.n_members == 2


def test_an_input_and_a_sense_of_one_name_are_refused():
    _, task, plant, channels = loop_and_task()
    with pytest.raises(ValueError, match="`channels` must not have the names of inputs"):
        popsim.n_network_inputs(task.validation_trials(), plant, {"target": channels["body"]})
