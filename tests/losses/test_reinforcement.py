"""Policy gradients against sums written out, and against the exact gradient of an expected reward."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_environments import N_STEPS, Counter, build, trial_with

import popsim
from popsim import losses

KEY = jax.random.key(0)
REWARDS = jnp.array([1.0, 0.0, 2.0, -1.0])
VALUES = jnp.array([0.3, 0.2, -0.5, 1.0])


def test_returns_are_the_sums_written_out():
    discounted = [sum(0.9 ** (s - t) * REWARDS[s] for s in range(t, 4)) for t in range(4)]
    np.testing.assert_allclose(losses.returns(REWARDS, 0.9), discounted, rtol=1e-6)
    np.testing.assert_allclose(losses.returns(REWARDS, 0.9, VALUES, trace=1.0), discounted, rtol=1e-6)
    later = np.append(VALUES[1:], 0.0)
    np.testing.assert_allclose(
        losses.returns(REWARDS, 0.9, VALUES, trace=0.0), REWARDS + 0.9 * later, rtol=1e-6
    )
    errors = REWARDS + 0.9 * later - VALUES
    advantage = [sum((0.9 * 0.7) ** (s - t) * errors[s] for s in range(t, 4)) for t in range(4)]
    estimate = losses.returns(REWARDS, 0.9, VALUES, trace=0.7) - VALUES
    np.testing.assert_allclose(estimate, advantage, rtol=1e-5, atol=1e-6)


@pytest.fixture
def counted(float64):
    model, trial = build(KEY), trial_with(Counter(jnp.asarray(9.0)))
    return popsim.simulate(model, trial, key=KEY), trial, model


def test_values_are_those_of_the_formulas(counted):
    states, trial, model = counted
    seen = states.interaction
    np.testing.assert_allclose(losses.PolicyGradient()(*counted), -seen.reward.sum(), rtol=1e-6)
    np.testing.assert_allclose(losses.Entropy()(*counted), -seen.entropy.sum(), rtol=1e-6)
    away = seen.value - losses.returns(seen.reward, 0.9, seen.value, trace=0.5)
    regression = losses.ValueRegression(discount=0.9, gae_lambda=0.5)
    np.testing.assert_allclose(regression(*counted), 0.5 * jnp.sum(away**2), rtol=1e-6)
    values, counts = jax.nn.one_hot(jnp.arange(N_STEPS) % 2, 2), jnp.arange(N_STEPS, dtype=float)
    asked = dataclasses.replace(trial, targets=popsim.OutputTarget(values, counts))
    log_p = jnp.sum(jax.nn.log_softmax(states.network.output[:, :2]) * values, axis=1)
    expected = -jnp.sum(counts * log_p) / jnp.sum(counts)
    np.testing.assert_allclose(losses.ChoiceLikelihood()(states, asked, model), expected, rtol=1e-6)


@pytest.mark.parametrize("gae_lambda, discount", [(1.0, 1.0), (0.9, 0.8)])
def test_the_gradient_is_that_of_the_surrogate(counted, gae_lambda, discount):
    states, trial, model = counted
    term = losses.PolicyGradient(discount=discount, gae_lambda=gae_lambda)
    seen = states.interaction
    advantage = losses.returns(seen.reward, discount, seen.value, trace=gae_lambda) - seen.value

    def of(log_probability):
        changed = dataclasses.replace(seen, log_probability=log_probability)
        return term(dataclasses.replace(states, interaction=changed), trial, model)

    np.testing.assert_allclose(jax.grad(of)(seen.log_probability), -advantage, rtol=1e-6)
    critic = jax.grad(
        lambda value: term(
            dataclasses.replace(states, interaction=dataclasses.replace(seen, value=value)), trial, model
        )
    )
    assert not np.any(critic(seen.value))


@pytest.mark.full
def test_its_mean_is_the_gradient_of_the_expected_reward():
    """A network whose output is its bias: the expected reward is T p, with p = softmax(bias)[1]."""
    network = popsim.networks.LeakyRNN(1, 2, 2, tau=0.05, key=KEY)
    bias = jnp.array([0.3, -0.2])
    network = eqx.tree_at(lambda n: (n.readout.weight, n.readout.bias), network, (jnp.zeros((2, 2)), bias))
    model = popsim.NetworkModel(network, policy=popsim.policies.Categorical(2), dt=0.01)
    trial, term = trial_with(Counter(jnp.asarray(9.0))), losses.PolicyGradient(discount=1.0)

    def value(bias, key):
        changed = eqx.tree_at(lambda m: m.network.readout.bias, model, bias)
        return term(popsim.simulate(changed, trial, key=key), trial, changed)

    estimates = jax.vmap(jax.grad(value), in_axes=(None, 0))(bias, jax.random.split(KEY, 3000))
    exact = jax.grad(lambda bias: -N_STEPS * jax.nn.softmax(bias)[1])(bias)
    error = estimates.std(0) / np.sqrt(3000)
    assert np.all(np.abs(estimates.mean(0) - exact) < 4 * error) and np.all(np.abs(exact) > 8 * error)


def test_what_a_term_lacks_is_named(as_users_run):
    without_critic, trial = build(KEY, critic=False), trial_with(Counter(jnp.asarray(9.0)))
    states = popsim.simulate(without_critic, trial, key=KEY)
    with pytest.raises(ValueError, match="`policy` of the model must have a critic"):
        losses.ValueRegression()(states, trial, without_critic)
    assert np.isfinite(losses.PolicyGradient()(states, trial, without_critic))
    with pytest.raises(ValueError, match="`gae_lambda` must be 1 for a policy without a critic"):
        losses.PolicyGradient(gae_lambda=0.5)(states, trial, without_critic)
    for term in (losses.PolicyGradient(), losses.Entropy()):
        with pytest.raises(ValueError, match="`trial` must have an environment for the term"):
            term(dataclasses.replace(states, interaction=None), trial, without_critic)
    with pytest.raises(ValueError, match="`discount` must be"):
        losses.PolicyGradient(discount=1.5)
