"""What each abstract class of the core promises, for all classes that fulfil it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import distributions, policies, schedules, windows
from popsim.schedules import LAST_BATCH, ScaledSchedule

KEY = jax.random.key(0)
DISTRIBUTIONS = [
    distributions.Constant([1.0, 2.0]),
    distributions.Uniform([0.0, 1.0], [2.0, 1.0]),
    distributions.Normal([0.0, 1.0], [1.0, 1.0]),
    distributions.Choice([[3.0, 0.0], [1.0, 4.0]]),
    distributions.TruncatedExponential(0.5, 1.0, 0.2),
]
SCHEDULES = [
    schedules.ConstantSchedule([1.0, 2.0]),
    schedules.LinearSchedule(1.0, 3.0, first_batch=2, last_batch=6),
    schedules.PiecewiseSchedule((0, 3, 5), [[1.0, 0.0], [2.0, 0.0], [4.0, 1.0]]),
    0.5 * schedules.LinearSchedule(1.0, 3.0, last_batch=6),
]
WINDOWS = [
    windows.WholeTrial(),
    windows.InEpoch("hold"),
    windows.FromEvent("go cue", 0.01, 0.02),
    windows.Before("go cue"),
    windows.Between(0.02, 0.05),
]
POLICIES = [
    policies.Categorical(3),
    policies.Categorical(2, critic=True),
    policies.Bernoulli(),
    policies.Gaussian(2, std=[0.5, 2.0], critic=True),
    policies.Deterministic(2),
]


def named(value):
    return type(value).__name__ if isinstance(value, eqx.Module) else None


def concrete(module, kind):
    classes = [getattr(module, name) for name in module.__all__]
    return {own for own in classes if isinstance(own, type) and issubclass(own, kind) and own is not kind}


def test_every_class_is_tried():
    for module, kind, examples in (
        (distributions, distributions.AbstractDistribution, DISTRIBUTIONS),
        (schedules, schedules.AbstractBatchSchedule, SCHEDULES),
        (windows, windows.AbstractWindow, WINDOWS),
        (policies, policies.AbstractPolicy, POLICIES),
    ):
        assert concrete(module, kind) <= set(map(type, examples))
    assert type(SCHEDULES[-1]) is ScaledSchedule


@pytest.mark.parametrize("own", DISTRIBUTIONS, ids=named)
def test_a_distribution_draws_within_its_bounds_alike_alone_and_mapped(own):
    low, high = own.bounds()
    keys = jax.random.split(KEY, 50)
    mapped = jax.jit(jax.vmap(lambda key: own.sample(key=key)))(keys)
    mapped, low, high = (np.asarray(each) for each in (mapped, low, high))
    assert mapped.shape == (50, *low.shape) and np.all((mapped >= low) & (mapped <= high))
    for index in (0, 7):
        np.testing.assert_allclose(own.sample(key=keys[index]), mapped[index], rtol=1e-6)
    per_member = jax.tree.map(lambda leaf: popsim.PerMember(jnp.stack([leaf, leaf + 1])), own)
    second = popsim.select_member(per_member, 1)
    assert eqx.tree_equal(second, jax.tree.map(lambda leaf: leaf + 1, own))


@pytest.mark.parametrize("own", SCHEDULES, ids=named)
def test_a_schedule_is_the_same_compiled_and_constant_after_its_end(own):
    batches = jnp.arange(10)
    mapped = jax.jit(jax.vmap(own))(batches)
    for batch in (0, 4):
        np.testing.assert_allclose(own(batch), mapped[batch], rtol=1e-6)
    np.testing.assert_array_equal(own(LAST_BATCH), mapped[-1])
    of_second = popsim.select_member(own * popsim.PerMember([1.0, 3.0]), 1)
    for scaled, factor in ((2.0 * own, 2), (of_second, 3)):
        np.testing.assert_allclose(scaled(4), factor * own(4), rtol=1e-6)
    if mapped.ndim == 1:
        loss = own * popsim.losses.Effort()
        np.testing.assert_allclose(loss.at_batch(5).weights["effort"], mapped[5], rtol=1e-6)


@pytest.mark.parametrize("own", WINDOWS, ids=named)
def test_a_window_selects_steps_of_each_trial_of_a_batch(own):
    timelines = jax.vmap(
        lambda go: popsim.Timeline(0.01, 8, epochs={"hold": jnp.stack([go, go + 2])}, events={"go cue": go})
    )(jnp.array([0, 3, popsim.NEVER]))
    mapped = jax.jit(jax.vmap(own))(timelines)
    assert mapped.shape == (3, 8) and mapped.dtype == bool
    for index in range(3):
        timeline = jax.tree.map(lambda leaf, index=index: leaf[index], timelines)
        np.testing.assert_array_equal(own(timeline), mapped[index])


@pytest.mark.parametrize("own", POLICIES, ids=named)
def test_a_policy_knows_the_probability_of_what_it_draws(own):
    output = jnp.array([0.4, -1.2, 2.0])[: own.n_outputs]
    assert output.size == own.n_outputs

    def act(key):
        action = own.act(output, key=key)
        return action, own.log_probability(output, action.value)

    keys = jax.random.split(KEY, 20)
    mapped, probability = jax.jit(jax.vmap(act))(keys)
    np.testing.assert_allclose(mapped.log_probability, probability, rtol=1e-5)
    alone = own.act(output, key=keys[3])
    np.testing.assert_allclose(alone.value, mapped.value[3], rtol=1e-6)
    np.testing.assert_allclose(own.greedy().act(output, key=KEY).value, own.best(output), rtol=1e-6)
    assert (own.value(output) is None) != own.critic

    @jax.jit
    @jax.grad
    def slope(output):
        action = own.act(output, key=KEY)
        return action.log_probability + action.entropy

    assert np.all(np.isfinite(slope(output)))
    model = popsim.NetworkModel(popsim.networks.GRUNetwork(1, 3, own.n_outputs, key=KEY), policy=own, dt=0.01)
    assert type(policies.greedy(model).policy.act(output, key=KEY)) is policies.Action
