"""`dataclasses.replace` makes a body with another part; a cursor has the velocity that is commanded."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim import plants

BODIES = {
    "mass": (plants.PointMass(), {"mass": jnp.asarray(2.0)}),
    "two segments": (plants.TwoLinkArm.motornet(), {"length": jnp.asarray([0.3, 0.3])}),
    "chain": (plants.NLinkArm(mass=(1.0, 1.0), length=(0.3, 0.3)), {"length": jnp.asarray([0.4, 0.3])}),
    "muscles": (plants.arm26(), {"n_substeps": 3}),
    "cursor": (plants.VelocityCursor(), {"n_substeps": 2}),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_part_is_replaced_and_the_rest_stays(name):
    body, changes = BODIES[name]
    assert eqx.tree_equal(dataclasses.replace(body), body)
    other = dataclasses.replace(body, **changes)
    for part, value in changes.items():
        assert eqx.tree_equal(getattr(other, part), value)
    if "length" in changes:
        assert not np.array_equal(other.hand_position(jnp.ones(2)), body.hand_position(jnp.ones(2)))


def test_weak_muscles_pull_less():
    arm = plants.arm26()
    half = eqx.tree_at(
        lambda muscle: muscle.max_isometric_force, arm.muscle, replace_fn=lambda force: force / 2
    )
    weak = dataclasses.replace(arm, muscle=half)
    state = arm.rest_state(arm.workspace.center)
    np.testing.assert_allclose(weak.muscles(state).force, arm.muscles(state).force / 2, rtol=1e-6)


def test_a_cursor_moves_as_commanded():
    commands = jax.random.normal(jax.random.key(0), (20, 2))
    moved = plants.simulate_plant(plants.VelocityCursor(), commands, dt=0.01)
    np.testing.assert_allclose(moved.hand.position, jnp.cumsum(0.01 * commands, axis=0), atol=1e-6)
    np.testing.assert_array_equal(moved.hand.velocity, commands)
