"""Terms on the activity of units against numpy and SciPy, on numbers drawn at random."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from central_differences import assert_gradients_agree
from loss_values import values_and_steps
from scipy.stats import poisson

import popsim
from popsim.losses import InWindow, RateError, SpikeCountLikelihood
from popsim.tasks import RecordedActivity

N_STEPS, DT = 6, 0.02
EARLY = InWindow(popsim.windows.Between(0.0, 3 * DT))
IS_EARLY = (np.arange(N_STEPS) < 3)[:, None]
UNITS = [4, 0, 2]


@functools.cache
def random_run():
    keys = jax.random.split(jax.random.key(0), 6)
    network = popsim.networks.LeakyRNN(1, 6, 1, tau=0.05, dt=DT, key=keys[0])
    model = popsim.NetworkModel(network, dt=DT)
    counts = jax.random.uniform(keys[1], (N_STEPS, 3)).at[1, 2].set(0.0)
    rates = jax.random.normal(keys[2], (N_STEPS, 3)).at[1, 2].set(jnp.nan)
    spikes = jax.random.poisson(keys[3], 0.7, (N_STEPS, 3)).astype(float)
    recordings = {
        "rates": RecordedActivity(rates, counts),
        "spikes": RecordedActivity(spikes, jnp.ones((N_STEPS, 1)).at[0].set(0.0)),
    }
    trial = popsim.Trial((), jnp.zeros((N_STEPS, 1)), (), popsim.Timeline(DT, N_STEPS), recordings=recordings)
    states = popsim.simulate(model, trial, key=keys[4])
    return with_activity(states, jax.random.normal(keys[5], (N_STEPS, 6))), trial, model


@pytest.fixture
def run(float64):
    """States, a trial with recordings of three units and a model; the activity drawn at random."""
    return random_run()


def with_activity(states, hidden):
    return dataclasses.replace(states, network=dataclasses.replace(states.network, hidden=hidden))


def activity_of(states, units=UNITS):
    return np.asarray(states.network.hidden)[:, units]


def assert_values(run, *cases):
    """The weighted means of costs, by the whole trial and by the sum over its steps."""
    terms, *_ = zip(*cases, strict=True)
    for (_, weights, cost), found in zip(cases, values_and_steps(terms, *run), strict=True):
        expected = np.sum(weights * np.where(weights > 0, cost, 0.0)) / np.sum(weights)
        np.testing.assert_allclose(found, [expected] * 2, rtol=1e-10)


def test_the_error_of_rates_is_the_weighted_mean_square(run, getkey):
    states, trial, model = run
    rates, counts = (np.asarray(x) for x in jax.tree.leaves(trial.recordings["rates"]))
    squared, weights = (activity_of(states) - rates) ** 2, np.array([0.0, 2.0, 1.0])
    weighted = RateError(units=np.array(UNITS), unit_weights=weights, profile=EARLY)
    halved = RateError(units=UNITS, rate_fn=lambda activity: activity / 2)
    by_function = RateError(units=lambda hidden: hidden[jnp.array(UNITS)])
    assert_values(
        run,
        (RateError(units=UNITS), counts, squared),
        (by_function, counts, squared),
        (weighted, counts * IS_EARLY * weights, squared),
        (halved, counts, (activity_of(states) / 2 - rates) ** 2),
    )

    def value(hidden):
        return RateError(units=UNITS)(with_activity(states, hidden), trial, model)

    assert_gradients_agree(value, states.network.hidden, getkey())


def test_units_may_be_a_group(run, getkey):
    states, trial, _ = run
    areas = popsim.networks.Areas({"front": 3, "back": 3})
    network = popsim.networks.AreaRNN(areas, {"input": 1}, 1, tau=0.05, dt=DT, key=getkey())
    terms = [RateError(units=units) for units in (range(3, 6), "back")]
    back, of_group = values_and_steps(terms, states, trial, popsim.NetworkModel(network, dt=DT))
    np.testing.assert_allclose(of_group, back, rtol=1e-12)


def test_the_likelihood_of_spike_counts_is_that_of_poisson(run, getkey):
    states, trial, model = run
    spikes = np.asarray(trial.recordings["spikes"].values)
    weights = np.broadcast_to(np.arange(N_STEPS)[:, None] > 0, spikes.shape).astype(float)
    expected = DT * (20 * np.maximum(activity_of(states), 0) + 0.5)
    term = SpikeCountLikelihood(units=UNITS, rate_fn=lambda activity: 20 * activity, baseline=0.5)
    assert_values(run, (term, weights, -poisson.logpmf(spikes, expected)))

    def value(hidden):
        return term(with_activity(states, hidden), trial, model)

    assert_gradients_agree(value, states.network.hidden, getkey())


def test_outputs_may_be_log_rates_of_units(run, getkey):
    states, trial, model = run
    output = jax.random.normal(getkey(), (N_STEPS, 3))
    states = dataclasses.replace(states, network=dataclasses.replace(states.network, output=output))
    spikes = np.asarray(trial.recordings["spikes"].values)
    weights = np.broadcast_to(np.arange(N_STEPS)[:, None] > 0, spikes.shape).astype(float)
    term = SpikeCountLikelihood(of="output", log_rates=True)
    cost = -poisson.logpmf(spikes, DT * np.exp(np.asarray(output)))
    assert_values((states, trial, model), (term, weights, cost))
    with pytest.raises(ValueError, match='`of` must be "activity", or without `units` "output", got'):
        SpikeCountLikelihood(of="output", units=UNITS)


def test_exponential_rates_overflow_no_sooner_than_expected_counts(getkey):
    """In single precision an exponential overflows from 89 on; some units that do not count are at 1000."""
    network = popsim.networks.LeakyRNN(1, 3, 1, tau=0.05, dt=DT, key=getkey())
    model, counts = popsim.NetworkModel(network, dt=DT), jnp.ones((N_STEPS, 3)).at[:, 2].set(0.0)
    activity = jnp.linspace(80.0, 90.0, 3 * N_STEPS).reshape(N_STEPS, 3).at[0, 0].set(-200.0)
    spikes = jnp.zeros((N_STEPS, 3)).at[1].set(3.0)
    recordings = {"spikes": RecordedActivity(spikes, counts)}
    trial = popsim.Trial((), jnp.zeros((N_STEPS, 1)), (), popsim.Timeline(DT, N_STEPS), recordings=recordings)
    states = popsim.simulate(model, trial, key=getkey())
    activity = activity.at[:, 2].set(1e3)
    exponential, doubled = (SpikeCountLikelihood(rate_fn=f) for f in (jnp.exp, lambda a: 2 * jnp.exp(a)))

    def value(activity, term):
        return term(with_activity(states, activity), trial, model)

    value_and_slope = jax.jit(jax.value_and_grad(value), static_argnums=1)
    found, slope = value_and_slope(activity, exponential)
    expected = DT * (np.exp(np.asarray(activity[:, :2], np.float64)) + 0.1)
    cost = -poisson.logpmf(np.asarray(spikes[:, :2]), expected)
    np.testing.assert_allclose(found, np.mean(np.where(np.isfinite(cost), cost, expected)), rtol=1e-4)
    np.testing.assert_allclose(
        slope[:, :2],
        (1 - spikes[:, :2] / expected) * (expected - 0.1 * DT) / cost.size,
        rtol=1e-4,
        atol=1e-30,
    )
    assert not np.any(slope[:, 2])
    below = value_and_slope(jnp.minimum(activity, 50.0).at[:, 2].set(1e3), doubled)
    assert all(np.all(np.isfinite(numbers)) for numbers in below)


def test_where_nothing_counts_the_error_is_zero_with_zero_gradient(run):
    states, trial, model = run
    nothing = RecordedActivity(jnp.full((N_STEPS, 3), jnp.nan), jnp.zeros((N_STEPS, 1)))
    trial = dataclasses.replace(trial, recordings={"rates": nothing, "spikes": nothing})
    for term in (RateError(units=UNITS), SpikeCountLikelihood(units=UNITS)):
        value, gradient = jax.jit(
            jax.value_and_grad(lambda hidden, term=term: term(with_activity(states, hidden), trial, model))
        )(states.network.hidden)
        assert value == 0 and not np.any(gradient)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, r"`units` of 'rate error' must be as many as were recorded, 3, .*got \(6,\)"),
        ({"units": [0, 1, 6]}, "`units` of 'rate error' must be numbers from 0 to 5, got 6"),
        ({"units": UNITS, "rate_fn": jnp.sum}, "`rate_fn` .* must return what is of the shape"),
    ],
)
def test_what_does_not_fit_the_trial_is_refused(as_users_run, run, options, message):
    with pytest.raises(ValueError, match=message):
        RateError(**options)(*run)
