"""Rules that learn from the loss of each trial: by perturbation of nodes or weights, and by reward."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth, every_nth_row, mostly_in_full
from trained_batch import LINEAR_SYNAPSES, MODEL_NAMES, MODELS, LinearUnits, random_trials, train_batch

import popsim
from popsim.model import initial_state
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.randomness import key_stream, trial_keys
from popsim.training import rules
from popsim.training.rules import BatchBaseline, RewardModulatedHebb, RunningBaseline

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


PAIRS = [("node", GRUNetwork), ("weight", LeakyRNN), ("node", LeakyRNN), ("weight", GRUNetwork)]


@pytest.mark.parametrize(("name", "network"), every_nth_row(PAIRS, 4))
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


BASELINES = {"running": RunningBaseline(4.0), "batch": BatchBaseline()}


def by_hand(batch, synapses, expected_reward, decay, average_decay):
    pre, post = np.asarray(synapses.pre_activity(batch)), np.asarray(synapses.post_activity(batch))
    rewards, total = -np.asarray(batch.losses.total), 0.0
    for k in range(len(pre)):
        trace, average = np.zeros((post.shape[2], pre.shape[2])), post[:, 0].mean(axis=0)
        for t in range(pre.shape[1]):
            trace = decay * trace + np.outer(post[k, t] - average, pre[k, t])
            average = average_decay * average + (1 - average_decay) * post[k, t]
        total = total + (rewards[k] - expected_reward) * trace / len(pre)
    return total


@pytest.mark.parametrize("decay", mostly_in_full([0.0, 0.7, 1.0], [0.7]))
@pytest.mark.parametrize("model", MODEL_NAMES)
def test_an_update_equals_a_loop_over_trials_and_time(float64, getkey, model, decay):
    """Two batches: the second is compared with the rewards of the first."""
    build, network = MODELS[model]
    model, trials = build(network, getkey())
    first, second = (train_batch(model, trials, key=getkey()) for _ in range(2))
    mean = -np.mean(first.losses.total)
    for synapses in (rules.recurrent_synapses(), rules.input_synapses(), rules.readout_synapses()):
        rule = RewardModulatedHebb(
            synapses, 0.3, baseline=RunningBaseline(4.0), decay=decay, average_decay=0.6
        )
        state = rule.init(model)
        for batch in (first, second):
            update, state = rule(model, batch, state, key=getkey())
            (changed,) = jax.tree.leaves(update)
            n_rows = synapses.weights(model).shape[0]
            expected = 0.3 * by_hand(batch, synapses, mean, decay, 0.6)
            np.testing.assert_allclose(changed[-n_rows:], expected, rtol=1e-6, atol=1e-12)
            assert not np.any(changed[:-n_rows])


def test_the_running_baseline_is_that_of_earlier_batches(float64):
    rewards = np.array([[-1.0, -3.0], [0.0, -1.0], [5.0, 6.0]])
    baseline, average = RunningBaseline(2.0), None
    state = baseline.init()
    for of_batch in rewards:
        expected, state = baseline(jnp.asarray(of_batch), state)
        mean = of_batch.mean()
        np.testing.assert_allclose(expected, mean if average is None else average, rtol=1e-12)
        average = mean if average is None else average + (1 - np.exp(-1 / 2)) * (mean - average)
        np.testing.assert_allclose(state.value, average, rtol=1e-12)


def test_the_batch_baseline_is_the_mean_of_the_batch(getkey):
    assert BatchBaseline()(jnp.array([1.0, 2.0, 6.0]), None) == (3.0, None)
    with pytest.raises(ValueError, match="`batch_size`"):
        BatchBaseline()(jnp.ones(1), None)


def noisy_network(key):
    """Ten noisy units with a constant input, to hold at 0.5 an output that can go up to 2."""
    network = LeakyRNN(1, 10, 1, tau=0.03, noise_std=0.1, key=key)
    network = eqx.tree_at(lambda n: n.readout.weight, network, jnp.full((1, 10), 0.2))
    network = eqx.tree_at(lambda n: n.input_weights, network, 0.3 * network.input_weights)
    model = popsim.NetworkModel(network, dt=0.01)
    trials = random_trials(64, 1, n_steps=10, key=key)
    return model, eqx.tree_at(lambda t: t.inputs["stimulus"], trials, jnp.ones((64, 10, 1)))


def output_error(states, trial, model):
    return jnp.mean((states.network.output - 0.5) ** 2)


@pytest.mark.full
@pytest.mark.parametrize("baseline", every_nth(BASELINES, 2))
def test_updates_go_down_the_gradient(getkey, baseline):
    """The mean of 200 has a cosine above 0.7 with it: by chance, of 10 weights, it is 0 ± 0.3."""
    model, trials = noisy_network(getkey())
    rule = RewardModulatedHebb(rules.input_synapses(), 1.0, baseline=BASELINES[baseline])

    def one(state, key):
        update, state = rule(model, train_batch(model, trials, output_error, key=key), state, key=key)
        return state, update.network.input_weights

    def mean_loss(weights, key):
        changed = eqx.tree_at(lambda m: m.network.input_weights, model, weights)
        return jnp.mean(train_batch(changed, trials, output_error, key=key).losses.total)

    keys = jax.random.split(getkey(), 200)
    _, updates = jax.lax.scan(one, rule.init(model), keys)
    slopes = jax.lax.map(lambda key: jax.grad(mean_loss)(model.network.input_weights, key), keys[:20])
    update, slope = np.ravel(updates.mean(axis=0)), np.ravel(slopes.mean(axis=0))
    assert -update @ slope / np.linalg.norm(update) / np.linalg.norm(slope) > 0.7
