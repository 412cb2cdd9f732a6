import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop

import popsim
from popsim.plants import JointState


def test_vision_sees_the_cursor_and_proprioception_feels_the_body(getkey):
    """Under a visual perturbation the two differ."""
    plant = popsim.plants.TwoLinkArm.arm26_skeleton()
    trial = reach(start=plant.workspace.center, target=plant.workspace.center)
    state = relay_loop({}, plant=plant).init(trial, key=getkey())
    cursor = popsim.HandState(jnp.array([0.1, 0.2]), jnp.array([0.3, 0.4]))
    body = JointState(jnp.array([0.5, 1.5]), jnp.array([-1.0, 2.0]))
    state = dataclasses.replace(state, cursor=cursor, plant=body)
    np.testing.assert_allclose(popsim.vision(state, plant), [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(popsim.proprioception(state, plant), [0.5, 1.5, -1.0, 2.0])


@pytest.mark.parametrize("delay", [-0.01, float("nan"), float("inf")])
def test_an_impossible_delay_is_refused(delay):
    with pytest.raises(ValueError, match="`delay`"):
        popsim.SensoryChannel(popsim.vision, delay=delay)
