"""Networks at another time step: a leaky one is moved exactly, a gated one is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim.networks import GRUNetwork, LeakyRNN, LowRankRNN

KEY = jax.random.key(0)


def task(dt):
    return popsim.tasks.SineGeneration(duration=0.4, dt=dt)


def uncoupled(dt, **options):
    """Units without synapses."""
    return LeakyRNN(1, 4, 1, dt=dt, gain=0.0, key=KEY, **options)


def after(network, seconds, start, n_draws=1):
    """The activations of many networks some time after `start`."""

    def one(key):
        def step(hidden, key):
            return network.step(jnp.zeros(network.n_inputs), hidden, key=key), None

        return jax.lax.scan(step, start, jax.random.split(key, round(seconds / network.dt)))[0]

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(KEY, n_draws)))


@pytest.mark.parametrize("dt", [0.005, 0.04])
def test_an_uncoupled_unit_decays_exactly_as_before(float64, dt):
    network = uncoupled(0.01, tau=jnp.array([0.01, 0.03, 0.05, 0.5]))
    start = jnp.array([1.0, 2.0, -3.0, 4.0])
    moved = network.with_dt(dt)
    assert moved.dt == dt
    np.testing.assert_allclose(after(moved, 0.2, start), after(network, 0.2, start), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(moved.with_dt(0.01).tau, network.tau, rtol=1e-9)


def test_an_uncoupled_unit_fluctuates_as_before():
    """The variance of a first-order autoregression is that of a step over 1 - (what a step keeps)^2."""
    network = uncoupled(0.01, tau=0.03, noise_std=jnp.array([0.1, 0.2, 0.3, 0.4]))
    spread = []
    for each in (network, network.with_dt(0.02), network.with_dt(0.002)):
        kept = after(popsim.without_noise(each), each.dt, jnp.ones(4))[0]
        spread.append(after(each, each.dt, jnp.zeros(4), 20_000).std(axis=0) / (1 - kept**2) ** 0.5)
    stationary = np.array([0.1, 0.2, 0.3, 0.4]) / (1 - 0.01 / 0.03 / 2) ** 0.5
    np.testing.assert_allclose(spread, [stationary] * 3, rtol=0.025)  # 5 standard errors


def test_a_unit_fluctuates_by_the_noise_of_its_inputs_at_any_dt():
    noise, tau = jnp.array([0.3, 0.1]), 0.03
    network = LeakyRNN(2, 4, 1, dt=0.01, tau=tau, gain=0.0, input_noise_std=noise, key=KEY)
    stationary = np.sqrt(np.asarray(network.input_weights) ** 2 @ np.asarray(noise) ** 2)
    for each in (network, network.with_dt(0.02), network.with_dt(0.005)):
        found = after(each, 4 * tau, jnp.zeros(4), 20_000)
        np.testing.assert_allclose(found.std(axis=0), stationary, rtol=0.025)  # 5 standard errors
    covariance = np.asarray(network.input_weights * noise**2 @ network.input_weights.T)
    np.testing.assert_allclose(np.cov(found.T), covariance, atol=0.03 * np.abs(covariance).max())


@pytest.mark.parametrize("kind", [LeakyRNN, LowRankRNN])
def test_noise_of_inputs_is_apart_from_that_of_units(kind):
    quiet = kind(2, 4, 1, key=KEY)
    noisy = kind(2, 4, 1, input_noise_std=0.5, key=KEY)
    both = kind(2, 4, 1, noise_std=0.2, input_noise_std=0.5, key=KEY)
    units = kind(2, 4, 1, noise_std=0.2, key=KEY)
    steps = [each.step(jnp.ones(2), jnp.zeros(4), key=KEY) for each in (quiet, noisy, units, both)]
    assert all(np.all(np.abs(after - steps[0]) > 1e-3) for after in steps[1:])
    np.testing.assert_allclose(steps[3] - steps[0], (steps[1] - steps[0]) + (steps[2] - steps[0]), atol=1e-6)
    silent = popsim.without_noise(both).step(jnp.ones(2), jnp.zeros(4), key=KEY)
    np.testing.assert_array_equal(silent, steps[0])
    with pytest.raises(ValueError, match="`input_noise_std` must .*2 inputs"):
        kind(2, 4, 1, input_noise_std=jnp.ones(3), key=KEY)


def test_fixed_points_stay_where_they_are(float64):
    network = LeakyRNN(1, 6, 1, gain=0.8, key=KEY)
    hidden = jnp.asarray(after(network, 20.0, jnp.ones(6))[0])
    moved = network.with_dt(0.02)
    np.testing.assert_allclose(moved.step(jnp.zeros(1), hidden, key=KEY), hidden, atol=1e-12)
    for name in ("recurrent_weights", "input_weights", "bias", "readout", "nonlinearity"):
        assert jax.tree.all(jax.tree.map(np.array_equal, getattr(moved, name), getattr(network, name)))


def test_a_leaky_model_and_an_ensemble_are_moved_to_other_trials():
    def build(*, key, tau):
        return popsim.NetworkModel(LeakyRNN(1, 4, 1, dt=0.02, tau=tau, noise_std=0.1, key=key), dt=0.02)

    members = popsim.member_grid(1, tau=[0.05, 0.1])
    ensemble = popsim.build_members(build, members, key=KEY)
    with pytest.raises(ValueError, match=r"that of the model, 0.02 s, got 0.01 s.*model.with_dt\(0.01\)"):
        popsim.evaluate_ensemble(ensemble, task(0.01), key=KEY)
    moved = ensemble.with_dt(0.01)
    alone = popsim.member(ensemble, 1).with_dt(0.01)
    np.testing.assert_allclose(popsim.member(moved, 1).network.tau, alone.network.tau)
    assert popsim.evaluate_ensemble(moved, task(0.01), key=KEY).losses.total.shape == (2, 5)


def test_a_gated_network_is_not_moved():
    model = popsim.NetworkModel(GRUNetwork(1, 4, 1, key=KEY), dt=0.02)
    with pytest.raises(ValueError, match="of the model, 0.02 s, got 0.01 s.*GRUNetwork, is trained again"):
        popsim.evaluate(model, task(0.01), key=KEY)
    with pytest.raises(ValueError, match="`network`.* got a GRUNetwork.*Train it again"):
        model.with_dt(0.01)


def test_a_loop_is_moved_with_its_delays():
    network = LeakyRNN(6, 4, 2, dt=0.01, key=KEY)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, 0.04)}
    loop = popsim.SensorimotorLoop(network, popsim.plants.PointMass(), channels, dt=0.01)
    assert loop.with_dt(0.02).dt == loop.with_dt(0.02).network.dt == 0.02
    with pytest.raises(ValueError, match=r"delay` must be a multiple of the time step dt = 0.03 s"):
        loop.with_dt(0.03)
