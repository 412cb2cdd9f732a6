"""What a network received in a trial, given to it again, makes the same activity."""

import jax
import numpy as np
import pytest

import popsim
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
    assert received.shape == (2, 8, 10, n_inputs)
    hidden = np.asarray(states.network.hidden, np.float64)
    for member in range(2):
        network = popsim.member(ensemble.network, member)
        follow = jax.vmap(
            lambda inputs, own, network=network: dynamics.network_dynamics(network, own, inputs)
        )
        following = follow(received[member, :, -1].astype("f4"), hidden[member, :, -2].astype("f4"))
        np.testing.assert_allclose(following, hidden[member, :, -1], atol=1e-6)


def test_what_does_not_say_what_it_received_is_refused(as_users_run):
    network = popsim.networks.LeakyRNN(2, 3, 1, tau=2.0, dt=1.0, key=jax.random.key(0))
    with pytest.raises(ValueError, match="`ensemble` must be models that say what their networks received"):
        dynamics.received_inputs(network, {}, popsim.tasks.FlipFlop().validation_trials())


def test_starts_of_another_size_are_refused():
    def build(key):
        return popsim.networks.LeakyRNN(2, 3, 1, tau=2.0, dt=1.0, key=key)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    with pytest.raises(ValueError, match="`hidden` must be 3 units, got shape"):
        dynamics.find_fixed_points(ensemble, np.zeros((2, 4, 5)))
