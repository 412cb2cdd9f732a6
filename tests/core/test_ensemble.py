import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
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


@pytest.mark.parametrize("index", [-1, 2, 100])
def test_a_member_out_of_range_is_refused(index):
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(3))
    with pytest.raises(ValueError, match=f"`index`.*0 to 1, got {index}"):
        popsim.member(ensemble, index)


@pytest.mark.parametrize("n_members", [0, -1])
def test_an_ensemble_without_members_is_refused(n_members):
    with pytest.raises(ValueError, match="`n_members`"):
        popsim.make_ensemble(build, n_members, key=jax.random.key(3))


@pytest.mark.parametrize("wrong", [jnp.zeros((3, 2)), jnp.zeros(())], ids=["other length", "no axis"])
def test_an_ensemble_whose_arrays_disagree_is_refused(wrong):
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(3))
    broken = eqx.tree_at(lambda model: model.plant.mass, ensemble, wrong)
    with pytest.raises(ValueError, match="`ensemble`.*plant.mass"):
        popsim.n_members(broken)


def test_a_model_without_arrays_is_no_ensemble():
    with pytest.raises(ValueError, match="`ensemble`"):
        popsim.n_members(popsim.noise.NoNoise())
