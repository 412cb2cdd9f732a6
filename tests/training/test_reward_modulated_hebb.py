import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth, mostly_in_full
from trained_batch import MODEL_NAMES, MODELS, random_trials, train_batch

import popsim
from popsim.networks import LeakyRNN
from popsim.training import rules
from popsim.training.rules import BatchBaseline, RewardModulatedHebb, RunningBaseline

pytestmark = pytest.mark.slow

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


def distance(states, trial, model):
    return jnp.mean((states.network.output - 0.5) ** 2)


@pytest.mark.full
@pytest.mark.parametrize("baseline", every_nth(BASELINES, 2))
def test_updates_go_down_the_gradient(getkey, baseline):
    """The mean of 200 has a cosine above 0.7 with it: by chance, of 10 weights, it is 0 ± 0.3."""
    model, trials = noisy_network(getkey())
    rule = RewardModulatedHebb(rules.input_synapses(), 1.0, baseline=BASELINES[baseline])

    def one(state, key):
        update, state = rule(model, train_batch(model, trials, distance, key=key), state, key=key)
        return state, update.network.input_weights

    def mean_loss(weights, key):
        changed = eqx.tree_at(lambda m: m.network.input_weights, model, weights)
        return jnp.mean(train_batch(changed, trials, distance, key=key).losses.total)

    keys = jax.random.split(getkey(), 200)
    _, updates = jax.lax.scan(one, rule.init(model), keys)
    slopes = jax.lax.map(lambda key: jax.grad(mean_loss)(model.network.input_weights, key), keys[:20])
    update, slope = np.ravel(updates.mean(axis=0)), np.ravel(slopes.mean(axis=0))
    assert -update @ slope / np.linalg.norm(update) / np.linalg.norm(slope) > 0.7
