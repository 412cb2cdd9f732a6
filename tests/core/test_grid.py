"""A grid of settings and seeds trained in one call, against each setting trained alone."""

import functools

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
from small_training import RunningSum, activity, assert_same, build, member_of, squared_error, train

import popsim
from popsim.training import TaskTrainer, adam

pytestmark = pytest.mark.slow

N_BATCHES = 20
MEMBERS = popsim.member_grid(4, strength=[0.5, 1.0, 2.0])
RATE = optax.cosine_decay_schedule(1e-2, N_BATCHES)


def optimizer(strength):
    """The setting as a factor of the learning rate, under a schedule."""
    return adam(strength * RATE, clip_norm=1.0)


def optimizer_alone(strength):
    return adam(optax.cosine_decay_schedule(1e-2 * float(strength), N_BATCHES), clip_norm=1.0)


def task(strength):
    """The setting as a weight of the loss and as a leaf of the task."""
    loss = 1.0 * popsim.FunctionTerm("squared_error", squared_error)
    loss = loss + (strength * 1e-2) * popsim.FunctionTerm("activity", activity)
    return eqx.tree_at(lambda t: t.scale, RunningSum(loss), strength * 1.0)


def build_one(*, key, strength):
    """The setting as a noise level and as a time constant."""
    return build(key, noise_std=0.1 * strength, tau=0.05 * strength + 0.01)


@functools.cache
def grid():
    ensemble = popsim.build_members(build_one, MEMBERS, key=jax.random.key(0))
    per_member = MEMBERS.per_member("strength")
    trainer = TaskTrainer(optimizer(per_member))
    return train(
        N_BATCHES,
        n_members=MEMBERS.n_members,
        ensemble=ensemble,
        task=task(per_member),
        trainer=trainer,
        members=MEMBERS,
        save_trial_specs=[0],
    )


@pytest.mark.full
def test_every_member_of_a_grid_is_what_it_is_alone():
    """The same setting trained by itself, by plain numbers: four seeds in an ensemble of their own."""
    (trained, history), setting = grid(), 2
    strength = jax.numpy.asarray(2.0)
    ensemble = popsim.make_ensemble(
        lambda key: build_one(key=key, strength=strength), 4, key=jax.random.key(0)
    )
    alone, own = train(
        N_BATCHES,
        n_members=4,
        ensemble=ensemble,
        task=task(strength),
        trainer=TaskTrainer(optimizer_alone(strength)),
    )
    losses = history.members.group(history.loss.total, axis=1)
    assert losses.shape == (N_BATCHES, 3, 4)
    np.testing.assert_allclose(losses[:, setting], own.loss.total, rtol=2e-4)
    rates = history.members.group(history.learning_rate, axis=1)
    np.testing.assert_allclose(rates[:, setting], own.learning_rate, rtol=1e-5)
    for seed in range(4):
        assert_same(member_of(trained, 4 * setting + seed), member_of(alone, seed), atol=1e-5)


def test_settings_make_a_difference_and_seeds_see_the_same_trials():
    _, history = grid()
    assert history.members.names == ("strength", "seed")
    assert np.unique(history.learning_rate[0]).size == 3
    first = MEMBERS.group(history.loss.terms["squared_error"][0], axis=0)
    assert np.unique(first).size == 12
    scale = MEMBERS.group(MEMBERS.settings["strength"], axis=0)[..., None, None, None]  # of the task
    inputs = MEMBERS.group(np.asarray(history.trial_specs[0].inputs), axis=0) / scale
    np.testing.assert_array_equal(inputs[0], inputs[2])
    assert not np.array_equal(inputs[0, 0], inputs[0, 1])
