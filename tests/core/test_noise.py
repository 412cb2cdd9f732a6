import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import GaussianNoise, MotorNoise, SensoryChannel
from popsim.noise import NoNoise

N_DRAWS = 40_000
SAMPLING = 5 / (2 * N_DRAWS) ** 0.5  # five standard errors of a standard deviation, relative


def draws(noise, signal, key):
    return jax.vmap(lambda key: noise(signal, key=key))(jax.random.split(key, N_DRAWS))


def assert_normal(samples, mean, std):
    np.testing.assert_allclose(samples.std(0), std, rtol=SAMPLING)
    np.testing.assert_allclose((samples.mean(0) - mean) / std, 0.0, atol=5 / N_DRAWS**0.5)
    kurtosis = (((samples - mean) / std) ** 4).mean(0)
    np.testing.assert_allclose(kurtosis, 3.0, atol=5 * (96 / N_DRAWS) ** 0.5)
    correlation = np.corrcoef(samples.T) - np.eye(samples.shape[1])
    np.testing.assert_allclose(correlation, 0.0, atol=5 / N_DRAWS**0.5)


@pytest.mark.parametrize("std", [0.3, [0.01, 2.0, 0.5]], ids=["one for all", "one for each"])
def test_gaussian_noise_has_the_stated_deviation(getkey, std):
    signal = jnp.array([1.0, -2.0, 0.0])
    assert_normal(draws(GaussianNoise(std), signal, getkey()), signal, np.broadcast_to(std, 3))


def test_motor_noise_is_a_share_of_the_command_and_a_constant(getkey):
    command = jnp.array([0.0, 1.0, -10.0])
    samples = draws(MotorNoise(0.2, 0.5), command, getkey())
    assert_normal(samples, command, np.sqrt((0.2 * np.asarray(command)) ** 2 + 0.5**2))


def test_no_noise_changes_nothing(getkey):
    signal = jnp.array([1.0, -2.0])
    np.testing.assert_array_equal(NoNoise()(signal, key=getkey()), signal)


def test_without_noise_replaces_every_noise_and_nothing_else(getkey):
    plant = popsim.plants.PointMass()
    network = popsim.networks.LeakyRNN(6, 3, 2, noise_std=0.1, key=getkey())
    channels = {"vision": SensoryChannel(popsim.vision, delay=0.02, noise=GaussianNoise(0.1))}
    model = popsim.SensorimotorLoop(network, plant, channels, MotorNoise(0.1, 0.1), dt=0.01)
    silent = popsim.without_noise(model)
    sources = [model.network.noise, model.motor_noise, model.channels["vision"].noise]
    silenced = [silent.network.noise, silent.motor_noise, silent.channels["vision"].noise]
    assert not any(isinstance(noise, NoNoise) for noise in sources)
    assert all(isinstance(noise, NoNoise) for noise in silenced)
    assert eqx.tree_equal(
        eqx.tree_at(lambda m: (m.network.noise, m.motor_noise, m.channels["vision"].noise), model, silenced),
        silent,
    )
