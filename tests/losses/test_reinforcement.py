"""Policy gradients against sums written out, and against the exact gradient of an expected reward."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_environments import N_STEPS, Counter, build, trial_with

import popsim
from popsim import losses
from popsim.interaction import Interaction
from popsim.session import join_trials

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


def test_given_choices_that_do_not_count_may_be_forbidden(counted):
    states, trial, model = counted
    choices, counts = jax.nn.one_hot(jnp.array([0] + [1] * (N_STEPS - 1)), 2), jnp.ones(N_STEPS).at[0].set(0)
    asked = dataclasses.replace(trial, targets=popsim.OutputTarget(choices, counts))

    def of(output):
        changed = eqx.tree_at(lambda s: s.network.output, states, output)
        return losses.ChoiceLikelihood()(changed, asked, model)

    value, slope = jax.value_and_grad(of)(states.network.output.at[:, 0].set(-jnp.inf))
    assert value == 0 and np.all(np.isfinite(slope))


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


N_TRIALS, MODEL = 3, build(KEY)


class Recorded(eqx.Module):
    """States that hold an interaction only."""

    interaction: Interaction


def joined(**options):
    """A session of trials of two time steps."""
    trials = jax.vmap(lambda last: trial_with(Counter(last), n_steps=2))(jnp.full(N_TRIALS, 9.0))
    return join_trials(trials, **options)


def recorded(actions, log_probability, value):
    """What is recorded where 1 at the first step ends the trial, and pays 10 in the next one."""
    first, second = actions[::2], actions[1::2]
    before = jnp.append(0, first[:-1])
    paid = jnp.stack([1 - first + 10 * before, jnp.where(first == 0, 2 * second, 0)], axis=1)
    active = jnp.stack([first >= 0, first == 0], axis=1)
    zeros = jnp.zeros(2 * N_TRIALS)
    return Interaction(
        received={},
        action=actions,
        log_probability=log_probability,
        entropy=zeros,
        value=value,
        reward=paid.ravel().astype(float),
        active=active.ravel(),
        record=None,
        upcoming=None,
    )


def at_steps(table, actions):
    """What a table of (trial, step, last first action) has at the steps of a session."""
    before = jnp.append(0, actions[::2][:-1])
    return table[np.repeat(np.arange(N_TRIALS), 2), np.tile([0, 1], N_TRIALS), jnp.repeat(before, 2)]


@pytest.mark.parametrize("critic", [False, True])
def test_over_a_session_its_mean_is_the_gradient_of_all_rewards(float64, critic):
    """All sequences of actions, of a policy that knows the place in the session and its last first action."""
    logits, baseline = jax.random.normal(KEY, (2, N_TRIALS, 2, 2))
    session, loss = joined(), 1.0 * losses.PolicyGradient(discount=1.0)
    sequences = np.array(list(itertools.product((0, 1), repeat=2 * N_TRIALS)))
    sequences = sequences[~np.any(sequences[:, ::2] & sequences[:, 1::2], axis=1)]  # no action after the end

    def seen(logits, actions):
        log_probability = -jax.nn.softplus(at_steps(logits, actions) * jnp.where(actions == 1, -1.0, 1.0))
        return recorded(actions, log_probability, at_steps(baseline, actions) if critic else None)

    def term(logits, actions):
        return loss(Recorded(seen(logits, actions)), session, MODEL).total

    def mean_reward(logits, actions):
        in_session = seen(logits, actions)
        probability = jnp.exp(jnp.sum(jnp.where(in_session.active, in_session.log_probability, 0.0)))
        return probability * in_session.reward.sum() / N_TRIALS, probability

    @jax.jit
    @jax.vmap
    def of_sequence(actions):
        exact, probability = jax.grad(mean_reward, has_aux=True)(logits, actions)
        value, estimate = jax.value_and_grad(term)(logits, actions)
        return probability, exact, probability * estimate, value, seen(logits, actions).reward

    probability, exact, estimate, value, reward = of_sequence(sequences)
    np.testing.assert_allclose(probability.sum(), 1.0)
    np.testing.assert_allclose(value, -reward.sum(1) / N_TRIALS)
    np.testing.assert_allclose(estimate.sum(0), -exact.sum(0), rtol=1e-10, atol=1e-12)
    assert np.abs(exact.sum(0)).max() > 0.1


def test_over_a_session_advantages_and_critics_run_on_and_are_cut_if_asked(float64):
    discount, trace = 0.9, 0.7
    actions = jnp.array([1, 0, 0, 1, 1, 0])  # the first and the last trial end early
    keys = jax.random.split(KEY)
    seen = recorded(actions, *(jax.random.normal(key, (6,)) for key in keys))
    options = {"discount": discount, "gae_lambda": trace}
    policy, critic = losses.PolicyGradient(**options), losses.ValueRegression(**options)

    def slopes(term, session):
        @jax.jit
        @jax.grad
        def of(log_probability):
            changed = dataclasses.replace(seen, log_probability=log_probability)
            return (1.0 * term)(Recorded(changed), session, MODEL).total

        return N_TRIALS * of(seen.log_probability)

    def regression(term, session):
        return N_TRIALS * (1.0 * term)(Recorded(seen), session, MODEL).total

    def advantages(values, rewards):
        errors = rewards + discount * np.append(values[1:], 0.0) - values
        return np.array(
            [
                sum((discount * trace) ** (s - t) * errors[s] for s in range(t, len(errors)))
                for t in range(len(errors))
            ]
        )

    active, rewards = np.asarray(seen.active), np.asarray(seen.reward)
    # After the end, V is what the next trial begins with, a step later; after the last trial it is zero.
    values = np.where(active, seen.value, np.append(discount * seen.value[1:], 0.0))
    values[5] = 0.0
    through = np.where(active, advantages(values, rewards), 0.0)
    alone = np.where(active, seen.value, 0.0).reshape(N_TRIALS, 2), rewards.reshape(N_TRIALS, 2)
    apart = np.where(active, np.ravel([advantages(*of_trial) for of_trial in zip(*alone, strict=True)]), 0.0)
    assert not np.allclose(through, apart)
    cut = [dataclasses.replace(term, cut_credit=True) for term in (policy, critic)]
    for terms, session, expected in (
        ((policy, critic), joined(carry="hidden"), through),
        ((policy, critic), joined(carry="environment", cut_gradient=True), through),
        ((policy, critic), joined(carry=()), apart),
        (cut, joined(), apart),
    ):
        np.testing.assert_allclose(slopes(terms[0], session), -expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(regression(terms[1], session), 0.5 * np.sum(expected**2), rtol=1e-12)


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
