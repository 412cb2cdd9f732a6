"""Spikes beside those of a loop in NumPy, their surrogate derivatives, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import poisson

import popsim
from popsim import networks, tasks
from popsim.analysis import neural_activity
from popsim.training import TaskTrainer, adam, cosine_decay

DT, TAU, TAU_OUT, TAU_ADAPTATION, N_REFRACTORY, BETA = 0.001, 0.02, 0.03, 0.2, 3, 0.3


def spiking(n_units=4, *, n_inputs=1, n_outputs=1, key, dt=DT, **options):
    times = {
        "tau": TAU,
        "tau_out": TAU_OUT,
        "tau_adaptation": TAU_ADAPTATION,
        "refractory": N_REFRACTORY * DT,
    }
    return networks.SpikingRNN(n_inputs, n_units, n_outputs, dt=dt, key=key, **times, **options)


def spikes_of_numpy(network, inputs, beta):
    """The spikes and the filtered spikes of each step."""
    W, V = np.asarray(network.recurrent_weights), np.asarray(network.input_weights)
    keep, keep_out, keep_adaptation = (np.exp(-DT / t) for t in (TAU, TAU_OUT, TAU_ADAPTATION))
    v = z = filtered = a = np.zeros(len(W))
    last, spikes, sums = np.full(len(W), -100), [], []
    for t, u in enumerate(inputs):
        v = keep * v + (1 - keep) * (V @ u) + W @ z - z
        a = keep_adaptation * a + z
        z = ((v > 1 + beta * a) & (t - last >= N_REFRACTORY)).astype(float)
        last = np.where(z > 0, t, last)
        filtered = keep_out * filtered + z
        spikes.append(z)
        sums.append(filtered)
    return np.array(spikes), np.array(sums)


@pytest.mark.parametrize("beta", [None, BETA])
def test_spikes_are_those_of_numpy_one_by_one(beta, float64, getkey):
    """For constant drives without recurrence, and for noisy ones with it."""
    network = spiking(key=getkey(), adaptation=beta, gain=2.0)
    network = eqx.tree_at(lambda net: net.input_weights, network, replace_fn=jnp.abs)
    alone = eqx.tree_at(
        lambda net: (net.recurrent_weights, net.input_weights),
        network,
        (jnp.zeros((4, 4)), jnp.array([[1.1], [1.5], [2.0], [6.0]])),
    )
    noisy = 6 * np.random.default_rng(0).uniform(size=(1000, 1))
    for net, inputs in ((alone, np.ones((2000, 1))), (network, noisy)):

        def step(hidden, u, net=net):
            hidden = net.step(u, hidden, key=jax.random.key(0))
            return hidden, hidden

        hidden = jax.lax.scan(step, net.init(key=jax.random.key(0)), inputs)[1]
        spikes, sums = spikes_of_numpy(net, inputs, 0.0 if beta is None else beta)
        assert spikes.sum() > 20
        np.testing.assert_array_equal(hidden.spike, spikes)
        np.testing.assert_allclose(net.rates(hidden), sums, rtol=1e-12)
    if beta is None:  # the first spike in closed form: v = (1 - k^n) drive
        first = np.argmax(spikes_of_numpy(alone, np.ones((200, 1)), 0.0)[0], axis=0)
        drives = np.array([1.1, 1.5, 2.0, 6.0])
        expected = np.ceil(np.log(1 - 1 / drives) / np.log(np.exp(-DT / TAU))) - 1
        np.testing.assert_array_equal(first, expected)


def test_a_spike_has_a_triangular_derivative():
    above = jnp.array([-1.5, -0.5, 0.0, 0.25, 2.0])
    spikes, slopes = jax.jvp(networks.Triangular(0.4), (above,), (jnp.ones(5),))
    np.testing.assert_array_equal(spikes, [0, 0, 0, 1, 1])
    np.testing.assert_allclose(slopes, [0, 0.2, 0.4, 0.3, 0], rtol=1e-6)


def flip_flop_error(recurs, n_batches, n_units):
    """The error of trained networks in a memory, in their last batches."""
    task = tasks.FlipFlop(n_bits=1, duration=0.5, dt=0.005)
    model = popsim.make_ensemble(
        lambda key: popsim.NetworkModel(networks.SpikingRNN(1, n_units, 1, dt=0.005, key=key), dt=0.005),
        2,
        key=jax.random.key(0),
    )
    trained = lambda model: model.network  # noqa: E731
    if not recurs:
        model = eqx.tree_at(lambda model: model.network.recurrent_weights, model, replace_fn=jnp.zeros_like)
        trained = lambda model: (model.network.input_weights, model.network.bias, model.network.readout)  # noqa: E731
    trainer = TaskTrainer(adam(cosine_decay(5e-3, n_batches), clip_norm=1.0))
    options = {"ensembled": True, "log_step": n_batches, "disable_tqdm": True, "key": jax.random.key(1)}
    _, history = trainer(task, model, n_batches, 32, trained, **options)
    return np.asarray(history.loss.total)[-20:].mean(axis=0)


@pytest.mark.full
def test_a_memory_is_learned_which_needs_recurrence():
    """Without recurrent weights nothing lasts longer than the time constants."""
    with_recurrence, without = (flip_flop_error(recurs, 300, 60) for recurs in (True, False))
    assert np.all(with_recurrence < 0.6 * without)


def test_what_cannot_be_is_refused(getkey):
    with pytest.raises(ValueError, match=r"`dt` must not exceed tau = 0\.02 s, got 0\.03"):
        spiking(dt=0.03, key=getkey())
    with pytest.raises(ValueError, match="`adaptation`"):
        spiking(adaptation=-1.0, key=getkey())
    with pytest.raises(ValueError, match="`height` must be finite and above zero"):
        networks.Triangular(0.0)
    with pytest.raises(ValueError, match="to be moved to dt = 0.002 s, got a SpikingRNN"):
        spiking(key=getkey()).with_dt(0.002)
    with pytest.raises(ValueError, match="`dt` must be that of the network, 0.001 s, got 0.002 s"):
        popsim.NetworkModel(spiking(key=getkey()), dt=0.002)


def test_the_irregularity_of_clocks_and_of_poisson_spikes():
    """Both in closed form; a unit without spikes has none."""
    random = np.random.default_rng(0)
    poisson = random.uniform(size=(1, 1000, 1000)) < 0.01
    clock = np.broadcast_to(np.arange(1000) % 50 == 0, poisson.shape)
    spikes = np.stack([poisson, clock, np.zeros_like(poisson)], axis=-1).astype(float)
    rates = neural_activity.firing_rates(spikes, dt=DT)
    assert rates.shape == (1, 1000, 3)
    np.testing.assert_allclose(rates.mean(axis=(0, 1)), [10, 20, 0], rtol=0.02)
    np.testing.assert_allclose(neural_activity.interval_variation(spikes), [[0.995, 0, np.nan]], atol=0.02)
    np.testing.assert_allclose(neural_activity.fano_factor(spikes), [[0.99, 0, np.nan]], atol=0.15)
    with pytest.raises(ValueError, match="`spikes` must have two trials or more, got 1"):
        neural_activity.fano_factor(spikes[:, :1])


def bits_of_nlb_tools(rates, spikes):
    """The score as nlb_tools writes it, of counts a bin, NaN where they are not scored."""

    def cost(rates):
        return np.nansum(rates - spikes * np.log(np.maximum(rates, 1e-9)) + gammaln(spikes + 1), where=known)

    known = ~np.isnan(spikes)
    null = np.broadcast_to(np.nanmean(spikes, axis=(0, 1)), spikes.shape)
    return (cost(null) - cost(rates)) / np.nansum(spikes) / np.log(2)


def test_bits_per_spike_are_those_of_poisson_likelihoods():
    """Of the true rates of units, of their mean, which is worth nothing, and of rates of other trials."""
    random = np.random.default_rng(0)
    phases = 6 * random.uniform(size=(40, 1, 3))
    rates = 20 * np.exp(np.sin(np.arange(100)[:, None] / 9 + phases))  # spikes/s, (trial, time, unit)
    spikes = random.poisson(0.01 * rates)
    scored = np.arange(100)[:, None] < 80
    mean = spikes[:, :80].mean(axis=(0, 1)) / 0.01
    candidates = np.stack([rates, np.broadcast_to(mean, rates.shape), rates[::-1]])
    found = neural_activity.bits_per_spike(candidates, spikes, dt=0.01, counts=scored)
    likelihoods = poisson.logpmf(spikes, 0.01 * candidates)[..., :80, :].sum(axis=(1, 2, 3))
    expected = (likelihoods - likelihoods[1]) / spikes[:, :80].sum() / np.log(2)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[0] > 0.2 and found[2] < 0
    spikes[..., 0] = 0  # a unit without spikes has a mean of zero
    observed = np.where(scored, spikes, np.nan)
    found = neural_activity.bits_per_spike(candidates, spikes, dt=0.01, counts=scored)
    expected = [bits_of_nlb_tools(0.01 * each, observed) for each in candidates]
    np.testing.assert_allclose(found, expected, atol=1e-8)  # they put 1e-9 in place of zero
    with pytest.raises(ValueError, match="`spikes` must have a spike where they are scored, got none"):
        neural_activity.bits_per_spike(candidates, 0 * spikes, dt=0.01)
