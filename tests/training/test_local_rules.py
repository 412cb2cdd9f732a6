import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth
from trained_batch import LINEAR_SYNAPSES, MODEL_NAMES, MODELS, LinearUnits, random_trials, train_batch

from popsim.networks import LeakyRNN
from popsim.training import rules

pytestmark = pytest.mark.slow


def flat(activity):
    """The activity of all trials and time steps, one after the other."""
    return activity.reshape(-1, activity.shape[2])


def hebb(pre, post, weights):
    return flat(post).T @ flat(pre) / (pre.shape[0] * pre.shape[1])


def differential(pre, post, weights):
    return hebb(pre[:, 1:] - pre[:, :-1], post[:, 1:] - post[:, :-1], weights)


def covariance(pre, post, weights):
    return hebb(pre - flat(pre).mean(0), post - flat(post).mean(0), weights)


def oja(pre, post, weights):
    return hebb(pre, post, weights) - np.diag(np.mean(flat(post) ** 2, axis=0)) @ weights


def bcm(pre, post, weights):
    """In its first batch."""
    return hebb(pre, post * (post - np.mean(flat(post) ** 2, axis=0)), weights)


def build_bcm(synapses, rate):
    return rules.BCM(synapses, rate, time_constant=5.0)


RULES = {
    "Hebb": (rules.Hebb, hebb),
    "AntiHebb": (rules.AntiHebb, lambda *activity: -hebb(*activity)),
    "DifferentialHebb": (rules.DifferentialHebb, differential),
    "CovarianceHebb": (rules.CovarianceHebb, covariance),
    "Oja": (rules.Oja, oja),
    "BCM": (build_bcm, bcm),
}
PICKED = {
    "recurrent": (rules.recurrent_synapses(), lambda n: n.recurrent_weights, lambda n: n.cell.weight_hh),
    "without diagonal": (
        rules.recurrent_synapses(zero_diagonal=True),
        lambda n: n.recurrent_weights,
        lambda n: n.cell.weight_hh,
    ),
    "input": (rules.input_synapses(), lambda n: n.input_weights, lambda n: n.cell.weight_ih),
    "readout": (rules.readout_synapses(), lambda n: n.readout.weight, lambda n: n.readout.weight),
}


@pytest.fixture(params=MODEL_NAMES, scope="module")
def batch(request):
    """A batch of a GRU and of a leaky network, by themselves and in a loop."""
    build, network = MODELS[request.param]
    with jax.enable_x64(True):
        model, trials = build(network, jax.random.key(3))
        return train_batch(model, trials, key=jax.random.key(4))


@pytest.mark.parametrize("rule", every_nth(RULES, 5))
def test_an_update_is_the_mean_over_trials_and_time_of_the_rule(batch, float64, rule):
    """For W[post, pre] of several shapes, square and not."""
    build, by_hand = RULES[rule]
    for name, (synapses, of_leaky, of_gru) in PICKED.items():
        built = build(synapses, 0.3)
        update, _ = eqx.filter_jit(built)(batch.model, batch, built.init(batch.model), key=jax.random.key(0))

        activity = (synapses.pre_activity(batch), synapses.post_activity(batch))
        expected = 0.3 * by_hand(*map(np.asarray, (*activity, synapses.weights(batch.model))))
        is_leaky = isinstance(batch.model.network, LeakyRNN)
        if name == "without diagonal":
            expected *= 1 - np.eye(5)
        if not is_leaky and name != "readout":
            expected = np.concatenate([np.zeros((10, expected.shape[1])), expected])
        (changed,) = jax.tree.leaves(update)  # and None everywhere else
        assert changed is (of_leaky if is_leaky else of_gru)(update.network)
        np.testing.assert_allclose(changed, expected, rtol=1e-6, atol=1e-14)
        eqx.apply_updates(batch.model, update)


def train(rule, model, batches, error=lambda *_: jnp.zeros(())):
    """A plain training by the rule alone; `batches` is a stack of trials."""

    def one(carry, trials):
        model, state = carry
        batch = train_batch(model, trials, error, key=jax.random.key(0))
        update, state = rule(model, batch, state, key=jax.random.key(1))
        return (eqx.apply_updates(model, update), state), state

    return jax.lax.scan(one, (model, rule.init(model)), batches)


@eqx.filter_jit
def gaussian_batches(n_batches, standard_deviations, *, key):
    batches = jax.vmap(lambda k: random_trials(16, standard_deviations.size, n_steps=4, key=k))(
        jax.random.split(key, n_batches)
    )
    return eqx.tree_at(
        lambda t: t.inputs["stimulus"], batches, batches.inputs["stimulus"] * standard_deviations
    )


def test_oja_finds_the_first_principal_component(float64, getkey):
    """On each row by itself, at length one; Hebb's rule alone grows without bound."""
    batches = gaussian_batches(400, jnp.sqrt(jnp.array([5.0, 1.0, 1.0, 0.5])), key=getkey())
    model = LinearUnits(jnp.array([[0.1, 0.3, -0.2, 0.2], [-0.2, 0.1, 0.3, 0.5]]), jnp.zeros(2))
    (learned, _), _ = train(rules.Oja(LINEAR_SYNAPSES, 0.02), model, batches)
    np.testing.assert_allclose(jnp.linalg.norm(learned.weights, axis=1), 1.0, atol=0.02)
    np.testing.assert_allclose(learned.weights[:, 0], [1.0, -1.0], atol=0.02)
    (grown, _), _ = train(rules.Hebb(LINEAR_SYNAPSES, 0.02), model, batches)
    assert np.all(np.linalg.norm(grown.weights, axis=1) > 100)


def test_the_threshold_of_bcm_slides_over_batches(float64, getkey):
    """By the equation: it is set by the first batch, and follows the later ones."""
    batches = gaussian_batches(4, jnp.array([2.0, 1.0, 1.0]), key=getkey())
    model = LinearUnits(jax.random.normal(getkey(), (2, 3)), jnp.ones(2))
    rule = rules.BCM(LINEAR_SYNAPSES, 0.01, time_constant=3.0)
    _, carried = train(rule, model, batches)

    weights, threshold = np.asarray(model.weights), None
    for b in range(4):
        x = np.asarray(batches.inputs["stimulus"][b]).reshape(-1, 3)
        y = x @ weights.T + 1
        mean = np.mean(y**2, axis=0)
        threshold = mean if threshold is None else threshold + (1 - np.exp(-1 / 3)) * (mean - threshold)
        np.testing.assert_allclose(carried.value[b], threshold, rtol=1e-10)
        weights = weights + 0.01 * (y * (y - threshold)).T @ x / len(x)
