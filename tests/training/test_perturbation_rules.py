import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trained_batch import LINEAR_SYNAPSES, MODEL_NAMES, MODELS, LinearUnits, random_trials, train_batch

import popsim
from popsim.model import initial_state
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.randomness import key_stream, trial_keys
from popsim.training import rules

pytestmark = pytest.mark.slow

RULES = {"node": rules.NodePerturbation, "weight": rules.WeightPerturbation}


def distance(states, trial, model):
    return 0.5 * jnp.sum((states - 1.0) ** 2)


def linear_batch(getkey, n_trials=5, n_steps=1):
    model = LinearUnits(jax.random.normal(getkey(), (2, 3)), jnp.zeros(2))
    trials = random_trials(n_trials, 3, n_steps=n_steps, key=getkey())
    return train_batch(model, trials, distance, key=getkey())


def drawn(key, name, n_trials, shape):
    """Standard normal numbers as the rules draw them, one trial after the other."""
    keys = trial_keys(key_stream(key, f"{name} perturbation"), n_trials, member_id=None)
    return [np.asarray(jax.random.normal(key, shape)) for key in keys]


@pytest.mark.parametrize("name", RULES)
def test_in_one_step_of_linear_units_it_is_the_rule_of_werfel(float64, getkey, name):
    """With E(y) = |y - 1|² / 2: -(eta / sigma²) [E(y + xi) - E(y)] xi x^T, -(eta / sigma²) [..] psi."""
    batch, key = linear_batch(getkey), getkey()
    update, state = RULES[name](LINEAR_SYNAPSES, 0.3, std=0.01)(batch.model, batch, None, key=key)

    weights, expected = np.asarray(batch.model.weights), np.zeros((2, 3))
    for i, normal in enumerate(drawn(key, name, 5, (1, 2) if name == "node" else (2, 3))):
        x, perturbation = np.asarray(batch.trials.inputs["stimulus"][i, 0]), 0.01 * normal
        y = weights @ x
        perturbed = y + perturbation[0] if name == "node" else (weights + perturbation) @ x
        increase = 0.5 * np.sum((perturbed - 1) ** 2) - 0.5 * np.sum((y - 1) ** 2)
        direction = np.outer(perturbation[0], x) if name == "node" else perturbation
        expected -= 0.3 / 0.01**2 * increase * direction / 5
    np.testing.assert_allclose(update.weights, expected, rtol=1e-6)
    assert update.bias is None and state is None


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("model", MODEL_NAMES)
def test_an_update_equals_a_loop_over_trials(float64, getkey, name, model):
    """Each trial run again by itself, with its own key: step by step with another bias, or other weights."""
    build, network = MODELS[model]
    model, trials = build(network, getkey())
    batch, key = train_batch(model, trials, key=getkey()), getkey()
    synapses = rules.recurrent_synapses(zero_diagonal=True)
    update, _ = eqx.filter_jit(RULES[name](synapses, 0.3, std=0.02))(model, batch, None, key=key)

    pre, expected = np.asarray(synapses.pre_activity(batch)), np.zeros((5, 5))
    for i, normal in enumerate(drawn(key, name, 6, (7, 5) if name == "node" else (5, 5))):
        trial = jax.tree.map(lambda leaf, i=i: leaf[i], trials)
        if name == "node":
            loss = loss_with_bias(batch.loss, model, trial, 0.02 * normal, key=batch.keys[i])
            direction = sum(np.outer(0.02 * normal[t], pre[i, t]) for t in range(7))
        else:
            direction = 0.02 * normal * (1 - np.eye(5))
            loss = loss_with_weights(batch.loss, model, trial, direction, key=batch.keys[i])
        expected -= 0.3 / 0.02**2 * float(loss - batch.losses.total[i]) * direction / 6
    (changed,) = jax.tree.leaves(update)
    assert changed is recurrent_array(update)
    np.testing.assert_allclose(changed[-5:], expected * (1 - np.eye(5)), rtol=1e-6)
    assert not np.any(changed[:-5])


def recurrent_array(model):
    leaky = isinstance(model.network, LeakyRNN)
    return model.network.recurrent_weights if leaky else model.network.cell.weight_hh


@eqx.filter_jit
def loss_with_weights(loss, model, trial, change, *, key):
    other = eqx.tree_at(recurrent_array, model, recurrent_array(model).at[-5:].add(change))
    return loss(popsim.simulate(other, trial, key=key), trial, model).total


@eqx.filter_jit
def loss_with_bias(loss, model, trial, shifts, *, key):
    """Of a simulation with the shifts of each step put into the bias by hand."""

    def bias(model):
        network = model.network
        return network.bias if isinstance(network, LeakyRNN) else network.cell.bias_n

    def step(state, now):
        shift, t, inputs = now
        shifted = eqx.tree_at(bias, model, bias(model) + shift)
        step_key = jax.random.fold_in(key_stream(key, "steps"), t)
        state = shifted.step(trial.at_step(inputs, {}), state, key=step_key)
        return state, model.record(state)

    now = shifts, jnp.arange(trial.timeline.n_steps), trial.inputs
    _, states = jax.lax.scan(step, initial_state(model, trial, key=key), now)
    return loss(states, trial, model).total


@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("node", GRUNetwork),
        pytest.param("weight", LeakyRNN, marks=pytest.mark.full),
        pytest.param("node", LeakyRNN, marks=pytest.mark.full),
        pytest.param("weight", GRUNetwork, marks=pytest.mark.full),
    ],
)
def test_the_expectation_is_minus_rate_times_the_gradient(float64, getkey, name, network):
    """Over six steps of a network: within 4.5 standard errors in every weight, over 900 batches of 100.

    The standard error is below a tenth of the gradient, so that a wrong factor or a lag would show.
    """
    model = popsim.NetworkModel(network(2, 3, 1, key=getkey()), dt=0.01)
    trials = random_trials(100, 2, n_steps=6, key=getkey())
    synapses, key = rules.recurrent_synapses(), getkey()
    batch = train_batch(model, trials, key=key)
    rule = RULES[name](synapses, 0.5, std=1e-3)

    def sample(key):
        update, _ = rule(model, batch, None, key=key)
        return recurrent_array(update)

    def mean_loss(change):
        changed = eqx.apply_updates(model, synapses.update(model, change))
        return jnp.mean(train_batch(changed, trials, key=key).losses.total)

    samples = np.asarray(jax.jit(jax.vmap(sample))(jax.random.split(getkey(), 900)))[:, -3:]
    expected = -0.5 * np.asarray(jax.grad(mean_loss)(jnp.zeros((3, 3))))
    error = samples.std(axis=0, ddof=1) / 30
    assert np.all(np.abs(samples.mean(axis=0) - expected) < 4.5 * error)
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(expected)


@pytest.mark.parametrize("name", RULES)
def test_a_loss_on_the_weights_counts_for_weight_perturbation_only(float64, getkey, name):
    """It does not change with the nodes; they would not learn from it."""
    model = LinearUnits(jnp.ones((1, 2)), jnp.zeros(1))
    trials = random_trials(3, 2, key=getkey())
    batch = train_batch(model, trials, lambda states, trial, model: jnp.sum(model.weights**2), key=getkey())
    update, _ = RULES[name](LINEAR_SYNAPSES, 0.1, std=0.1)(model, batch, None, key=getkey())
    assert bool(np.any(update.weights != 0)) == (name == "weight")
