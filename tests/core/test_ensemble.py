"""Ensembles, and grids of settings and seeds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, Relay

import popsim
from popsim import build_members, make_ensemble, member_grid

RATES, NOISES = [1e-3, 3e-3], [0.0, 0.1, 0.2]


@pytest.fixture
def grid():
    return member_grid(4, learning_rate=RATES, noise=NOISES)


def build(key, noise=0.0, mass=1.0):
    """A model whose command is drawn from the key, and whose noise and mass are settings."""
    plant = popsim.plants.PointMass(mass)
    network = Relay(jax.random.normal(key, (2,)), 2)
    return popsim.SensorimotorLoop(network, plant, {}, popsim.MotorNoise(noise, 0.0), dt=DT)


def test_a_grid_is_every_setting_with_every_seed(grid):
    assert (grid.n_members, grid.shape, grid.names) == (24, (2, 3, 4), ("learning_rate", "noise", "seed"))
    expected = [(rate, noise, seed) for rate in RATES for noise in NOISES for seed in range(4)]
    settings = grid.settings["learning_rate"], grid.settings["noise"]
    assert list(zip(*settings, grid.ids, strict=True)) == expected


def test_axes_are_in_the_order_in_which_settings_were_given():
    members = member_grid(2, noise=NOISES, mass=[1.0, 2.0])
    assert members.names == ("noise", "mass", "seed") == tuple(members.labels)
    assert [values.tolist() for values in members.labels.values()] == [NOISES, [1.0, 2.0], [0, 1]]
    assert jax.tree.map(lambda leaf: leaf, members) == members
    assert members == member_grid(2, noise=NOISES, mass=[1.0, 2.0])
    assert hash(members) == hash(member_grid(2, noise=NOISES, mass=[1.0, 2.0]))
    assert members != member_grid(2, noise=NOISES, mass=[1.0, 3.0]) != member_grid(2, mass=[1.0, 3.0])


def test_vectors_are_settings_too():
    stds = member_grid(2, std=[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    assert stds.shape == (3, 2) and stds.per_member("std").values.shape == (6, 2)
    np.testing.assert_array_equal(stds.labels["std"], [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])


def test_grouping_puts_the_grid_in_the_place_of_the_members(grid):
    values = {"loss": jnp.arange(5 * 24.0).reshape(5, 24), "states": np.zeros((5, 24, 7))}
    grouped = grid.group(values, axis=1)
    assert isinstance(grouped["loss"], type(values["loss"]))
    assert (grouped["loss"].shape, grouped["states"].shape) == ((5, 2, 3, 4), (5, 2, 3, 4, 7))
    member = next(i for i in range(24) if grid.ids[i] == 3 and grid.settings["noise"][i] == 0.1)
    assert grouped["loss"][2, 0, 1, 3] == values["loss"][2, member]
    np.testing.assert_array_equal(grid.group(values["loss"], axis=-1), grouped["loss"])


def test_a_setting_becomes_a_value_of_each_member(grid):
    np.testing.assert_allclose(grid.per_member("noise").values, np.tile(np.repeat(NOISES, 4), 2))
    with pytest.raises(ValueError, match="'rule' must be of numbers"):
        member_grid(2, rule=["hebb", "oja"]).per_member("rule")


def test_members_of_one_id_start_alike_and_have_their_own_settings():
    members, key = member_grid(3, noise=NOISES, mass=[1.0, 2.0]), jax.random.key(7)
    ensemble = build_members(build, members, key=key)
    assert popsim.n_members(ensemble) == 18
    np.testing.assert_allclose(ensemble.motor_noise.signal_dependent, members.settings["noise"])
    np.testing.assert_allclose(ensemble.plant.mass, members.settings["mass"])
    commands = np.asarray(members.group(ensemble.network.command, axis=0))
    seeds = np.asarray(make_ensemble(build, 3, key=key).network.command)
    np.testing.assert_array_equal(commands, np.broadcast_to(seeds, commands.shape))


def test_only_the_named_settings_are_given_to_build():
    members, key = member_grid(2, learning_rate=RATES, mass=[1.0, 2.0]), jax.random.key(7)
    ensemble = build_members(build, members, settings=["mass"], key=key)
    np.testing.assert_allclose(ensemble.plant.mass, members.settings["mass"])
    with pytest.raises(TypeError, match="'learning_rate'"):
        build_members(build, members, key=key)


def test_a_member_is_the_model_built_from_its_key_however_many_there_are():
    key = jax.random.key(3)
    small, large = (popsim.make_ensemble(build, n, key=key) for n in (3, 5))
    assert (popsim.n_members(small), popsim.n_members(large)) == (3, 5)
    member, alone = popsim.member(small, 2), build(jax.random.fold_in(key, 2))
    assert eqx.tree_equal(member, popsim.member(large, 2))
    assert eqx.tree_equal(member, alone, rtol=1e-6, atol=1e-7)
    assert not np.any(large.network.command[0] == large.network.command[1])
    one = popsim.member_grid(3).select(2)
    assert eqx.tree_equal(member, popsim.member(build_members(build, one, key=key), 0))
