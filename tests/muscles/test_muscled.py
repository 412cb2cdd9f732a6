"""Bodies put together from skeletons, paths and muscles."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth

from popsim import muscles, plants
from popsim.plants import MusculoskeletalPlant

pytestmark = pytest.mark.slow


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
