"""Starts that are encoded from a recording: what is read of it, and what is not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import popsim
from popsim import losses, tasks, windows
from popsim.networks import EncodedNetwork, EncodedStart, GRUNetwork, LeakyRNN, StackedNetwork, TrainableStart
from popsim.session import join_trials
from popsim.tasks import RecordedActivity
from popsim.training import TaskTrainer, adam

KEY, DT, N_STEPS, UNITS = jax.random.key(3), 0.02, 8, (0, 2, 3)
PAST = windows.Between(0.0, 6 * DT)


def encoded(key=KEY, n_outputs=4, **options):
    return EncodedStart(LeakyRNN(1, 5, n_outputs, dt=DT, key=key), UNITS, n_encoder=3, **options, key=key)


def trial_of(values, counts):
    timeline = popsim.Timeline(DT, N_STEPS)
    recordings = {"spikes": RecordedActivity(values, counts)}
    return popsim.Trial((), jnp.ones((N_STEPS, 1)), (), timeline, recordings=recordings)


def drawn_spikes(*shape):
    return np.random.default_rng(0).poisson(1.0, (*shape, N_STEPS, 4)).astype(float)


def states_of_numpy(cell, series):
    """The last state of gated units (Cho et al. 2014, with the reset gate after the product)."""
    (W, U, b), h = (np.asarray(each) for each in (cell.weight_ih, cell.weight_hh, cell.bias)), np.zeros(3)
    for x in series:
        (r, z, n), (hr, hz, hn) = np.split(W @ x + b, 3), np.split(U @ h, 3)
        n = np.tanh(n + expit(r + hr) * (hn + np.asarray(cell.bias_n)))
        h = n + expit(z + hz) * (h - n)
    return h


def test_the_start_is_that_of_gated_units_in_numpy_which_skip_what_does_not_count(float64):
    """In a trial of which the third step was not observed, one unit at one step was not, and two are padding.

    The units begin from a start of their own, to which what is encoded is added.
    """
    values, counts = drawn_spikes(), np.ones((N_STEPS, 4))
    counts[2], counts[4, 2], counts[6:] = 0, 0, 0
    inner = TrainableStart(LeakyRNN(1, 5, 4, dt=DT, key=KEY), jnp.arange(5.0))
    network = EncodedStart(inner, UNITS, n_encoder=3, key=KEY)
    read = np.where(counts > 0, values, 0.0)[np.array([0, 1, 3, 4, 5])][:, UNITS]
    encoder = network.encoder
    ends = [states_of_numpy(encoder.forwards, read), states_of_numpy(encoder.backwards, read[::-1])]
    expected = np.arange(5.0) + encoder.to_hidden.weight @ np.concatenate(ends) + encoder.to_hidden.bias
    found = network.init_for(trial_of(values, counts), key=KEY)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("missing", [7.0, np.nan])
def test_what_does_not_count_or_is_outside_of_the_window_does_not_reach_the_start(missing):
    values, counts = drawn_spikes(), np.ones((N_STEPS, 4))
    counts[3, 0], counts[4] = 0, 0
    is_read = counts.astype(bool)
    is_read[6:], is_read[:, 1] = False, False  # outside of the window, and of the units
    network = encoded(window=PAST)

    @jax.jit
    def start_and_slopes(values, weights):
        def summed(values, weights):
            given = eqx.combine(weights, network)
            start = given.init_for(trial_of(values, counts), key=KEY)
            return jnp.sum(start**2), start

        (_, start), slopes = jax.value_and_grad(summed, argnums=(0, 1), has_aux=True)(values, weights)
        return start, slopes

    weights = eqx.filter(network, popsim.is_parameter(network))
    start, _ = start_and_slopes(values, weights)
    same, (by_values, by_weights) = start_and_slopes(np.where(is_read, values, missing), weights)
    np.testing.assert_array_equal(same, start)
    np.testing.assert_array_equal(by_values != 0, is_read)
    assert all(np.all(np.isfinite(slope)) and np.any(slope) for slope in jax.tree.leaves(by_weights.encoder))
    np.testing.assert_array_equal(
        encoded(window=windows.Between(0.0, 0.0)).init_for(trial_of(values, counts), key=KEY),
        network.encoder(jnp.zeros((0, 3)), jnp.zeros(0, bool)),  # nothing is read
    )


def stored(series, **options):
    steps = [np.zeros((len(trial), 1)) for trial in series]
    likelihood = losses.SpikeCountLikelihood(of="output", log_rates=True)
    return tasks.StoredTrials(
        {"nothing": steps}, dt=DT, recordings={"spikes": series}, loss=1.0 * likelihood, **options
    )


def test_padding_and_a_session_change_no_state():
    """A short trial by itself, in a batch with a longer one, and as a later trial of a session."""
    series, model = [*drawn_spikes(3)], popsim.NetworkModel(encoded(), dt=DT)
    series[1] = series[1][:5]
    numbers = np.arange(3)
    with pytest.warns(UserWarning, match="in common"):
        task = stored(series, validation=numbers, train=numbers)
    trials = task.validation_trials()
    states = popsim.evaluate(model, task, trials=trials, key=KEY).states.network.hidden
    with pytest.warns(UserWarning, match="in common"):
        alone = stored([series[1]], validation=[0], train=[0])
    unpadded = popsim.evaluate(model, alone, key=KEY).states.network.hidden
    np.testing.assert_allclose(states[1, :5], unpadded[0], rtol=1e-5, atol=1e-6)
    assert np.abs(states[1] - states[0]).max() > 0.01
    session = popsim.simulate(model, join_trials(trials, carry=()), key=KEY).network.hidden
    np.testing.assert_allclose(session.reshape(states.shape), states, rtol=1e-5, atol=1e-6)


def test_networks_around_it_keep_the_start_unless_they_have_their_own():
    trial = trial_of(drawn_spikes(), np.ones((N_STEPS, 4)))
    inner = encoded()
    start = inner.init_for(trial, key=KEY)
    around = EncodedNetwork(inner, readout=jnp.exp)
    np.testing.assert_array_equal(around.init_for(trial, key=KEY), start)
    layers = StackedNetwork([inner, GRUNetwork(4, 2, 1, key=KEY)])
    jax.tree.map(np.testing.assert_array_equal, layers.init_for(trial, key=KEY), (start, np.zeros(2)))
    np.testing.assert_array_equal(TrainableStart(inner).init_for(trial, key=KEY), np.zeros(5))


@pytest.mark.slow
def test_members_learn_starts_from_which_units_that_are_not_read_are_predicted():
    """All units have one of two rates in a trial, which the units that are read tell."""
    random = np.random.default_rng(0)
    rates = np.where(random.uniform(size=(120, 1, 1)) < 0.5, 5.0, 45.0)  # spikes/s
    task = stored(random.poisson(DT * rates, (120, N_STEPS, 4)).astype(float))
    build = lambda key: popsim.NetworkModel(encoded(key, window=PAST), dt=DT)  # noqa: E731
    ensemble = popsim.make_ensemble(build, 2, key=KEY)
    trained, _ = TaskTrainer(adam(1e-2))(
        task, ensemble, 150, 32, lambda model: model.network, ensembled=True, disable_tqdm=True, key=KEY
    )
    encoders = (jax.tree.leaves(each.network.encoder) for each in (ensemble, trained))
    assert all(np.all(np.any(before != after, axis=1)) for before, after in zip(*encoders, strict=True))
    trials = task.validation_trials()
    swapped = eqx.tree_at(lambda trials: trials.recordings["spikes"].values, trials, replace_fn=jnp.flipud)
    found, other = (
        np.exp(popsim.evaluate_ensemble(trained, task, trials=each, key=KEY).states.network.output[..., 1])
        for each in (trials, swapped)
    )
    true = np.asarray(rates[np.asarray(task.validation)])[..., 0]
    for of_member, of_others in zip(found, other, strict=True):
        assert np.corrcoef(of_member.mean(axis=1), true[:, 0])[0, 1] > 0.9
        assert np.corrcoef(of_others.mean(axis=1), true[:, 0])[0, 1] < 0.5
