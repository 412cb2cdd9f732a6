import jax.numpy as jnp
import numpy as np
from relay import reach, stacked

import popsim
from popsim import Scaling, SensoryChannel
from popsim.network_input import network_input


def test_inputs_come_before_feedback_both_by_name_and_scaled():
    received = network_input(
        {"target": jnp.array([1.0, 2.0]), "go": {"late": jnp.array([4.0]), "early": jnp.array(3.0)}},
        {"vision": jnp.array([5.0]), "body": jnp.array([6.0, 7.0])},
        {"target": Scaling([1.0, 0.0], 0.5), "body": Scaling(6.0, [1.0, 2.0])},
    )
    np.testing.assert_allclose(received, [3.0, 4.0, 0.0, 4.0, 0.0, 0.5, 5.0])


def test_inputs_without_names_are_called_inputs():
    received = network_input(jnp.array([1.0, 2.0]), {}, {"inputs": Scaling(0.0, 2.0)})
    np.testing.assert_allclose(received, [0.5, 1.0])


def test_the_number_of_inputs_is_that_of_targets_and_senses():
    arm = popsim.plants.TwoLinkArm.arm26_skeleton()
    trials = stacked(reach(start=arm.workspace.center))
    channels = {"vision": SensoryChannel(popsim.vision), "body": SensoryChannel(popsim.proprioception)}
    assert popsim.n_network_inputs(trials, arm, channels) == 2 + 4 + 4
    assert popsim.n_network_inputs(trials, arm, {}) == 2
