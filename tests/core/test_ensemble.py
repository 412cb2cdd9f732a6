import equinox as eqx
import jax
import numpy as np
from relay import DT, Relay

import popsim

PLANT = popsim.plants.PointMass()
NOISE = popsim.MotorNoise(0.1, 0.2)


def build(key):
    """A model of which the command alone is drawn from the key."""
    return popsim.SensorimotorLoop(Relay(jax.random.normal(key, (2,)), 2), PLANT, {}, NOISE, dt=DT)


def test_a_member_does_not_depend_on_the_number_of_members():
    key = jax.random.key(3)
    small, large = (popsim.make_ensemble(build, n, key=key) for n in (2, 5))
    assert (popsim.n_members(small), popsim.n_members(large)) == (2, 5)
    assert eqx.tree_equal(popsim.member(small, 1), popsim.member(large, 1))
    assert not np.any(large.network.command[0] == large.network.command[1])


def test_a_member_is_the_model_built_from_its_key():
    key = jax.random.key(3)
    member = popsim.member(popsim.make_ensemble(build, 3, key=key), 2)
    alone = build(jax.random.fold_in(key, 2))
    assert jax.tree.structure(member) == jax.tree.structure(alone)
    for a, b in zip(jax.tree.leaves(member), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_every_array_of_an_ensemble_has_the_member_axis():
    ensemble = popsim.make_ensemble(build, 4, key=jax.random.key(3))
    assert all(leaf.shape[0] == 4 for leaf in jax.tree.leaves(ensemble))
