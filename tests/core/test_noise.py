"""Noise of a model, and noise that trials schedule: how large it is, and that it is nobody else's."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_intervention import noisy_network_model
from relay import DT, reach, relay_loop

import popsim
from popsim import GaussianNoise, MotorNoise, SensoryChannel
from popsim.interventions import (
    CommandNoise,
    FeedbackNoise,
    ForceNoise,
    InputNoise,
    InterventionSchedule,
    UnitNoise,
)
from popsim.noise import NoNoise

N_DRAWS = 40_000
SAMPLING = 5 / (2 * N_DRAWS) ** 0.5  # five standard errors of a standard deviation, relative


def draws(noise, signal, key):
    drawn = jax.jit(jax.vmap(lambda key: noise(signal, key=key)))(jax.random.split(key, N_DRAWS))
    return np.asarray(drawn, np.float64)


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


N_TRIALS, MOTOR_STD = 2000, 0.4
HELD = (FeedbackNoise("vision"), UnitNoise(), CommandNoise(), ForceNoise())
CHANNELS = {"vision": SensoryChannel(popsim.vision)}
STD = {  # the units of a relay are the target and the vision that it receives
    "feedback noise": jnp.array([0.1, 0.2, 0.3, 0.4]),
    "unit noise": jnp.array(0.3),
    "command noise": jnp.array([0.2, 0.5]),
    "force noise": jnp.array([2.0, 1.0]),
}
DRAWN = {
    "feedback noise": lambda states: states.feedback["vision"],
    "unit noise": lambda states: states.network.hidden,
    "command noise": lambda states: states.command,
    "force noise": lambda states: states.external_force,
}


@jax.jit
def many_steps(active, key):
    schedules = {name: InterventionSchedule(std, active[name]) for name, std in STD.items()}
    loop = relay_loop(CHANNELS, motor_noise=MotorNoise(0.0, MOTOR_STD), interventions=HELD)
    trial = reach(1, interventions=schedules)
    return jax.vmap(lambda key: popsim.simulate(loop, trial, key=key))(jax.random.split(key, N_TRIALS))


def one_step(acting, key):
    """The first step of many trials of a relay that has motor noise as well."""
    states = many_steps({name: jnp.array([name in acting]) for name in STD}, key)
    return jax.tree.map(lambda leaf: np.array(leaf[:, 0]), states)


def test_noise_has_the_deviation_that_the_trial_says_and_is_independent(getkey):
    """The units of a relay are what it receives, so that they have both noises."""
    key = getkey()
    all_at_once, calm = one_step(STD, key), one_step([], key)
    noise = {name: read(all_at_once) - read(calm) for name, read in DRAWN.items()}
    expected = {name: np.broadcast_to(std, noise[name].shape[1:]) for name, std in STD.items()}
    of_vision = np.concatenate([np.zeros(2), STD["feedback noise"]])
    expected["unit noise"] = np.hypot(of_vision, 0.3)
    noise["motor noise"], expected["motor noise"] = calm.command - calm.network.output, np.full(2, MOTOR_STD)
    for name, drawn in noise.items():
        assert np.allclose(drawn.std(0), expected[name], rtol=5 / (2 * N_TRIALS) ** 0.5), name
        assert np.allclose(drawn.mean(0) / expected[name], 0, atol=5 / N_TRIALS**0.5), name
    noise["unit noise"][:, 2:] -= noise["feedback noise"]
    together = np.concatenate(list(noise.values()), axis=1)
    atol = 6 / N_TRIALS**0.5
    np.testing.assert_allclose(np.corrcoef(together.T), np.eye(together.shape[1]), atol=atol)


def test_what_a_noise_draws_does_not_depend_on_the_others(getkey):
    key = getkey()
    calm, others = one_step([], key), one_step(STD, key)
    for name, read in DRAWN.items():
        drawn = read(others)
        if name == "unit noise":  # the units receive the noise of the feedback too
            drawn = drawn - np.pad(others.feedback["vision"] - calm.feedback["vision"], ((0, 0), (2, 0)))
        alone = read(one_step([name], key))
        np.testing.assert_allclose(alone, drawn, atol=1e-6)
        assert np.all(alone.std(0) > read(calm).std(0))


def test_a_random_force_is_held_over_the_step(getkey):
    """A mass of 1 kg gains the impulse of the command and of the force."""
    states = one_step(["force noise"], getkey())
    pushed = states.command + states.external_force
    np.testing.assert_allclose(states.hand.velocity, DT * pushed, atol=1e-6)


def test_noise_on_the_input_of_a_network_alone_is_what_it_receives(getkey):
    """Rules that read what was received see it."""
    model = noisy_network_model((InputNoise(),))
    active = jnp.arange(12) >= 4
    trial = reach(interventions={"input noise": InterventionSchedule(jnp.array([0.1, 3.0]), active)})
    keys = jax.random.split(getkey(), 500)
    states = jax.jit(jax.vmap(lambda key: popsim.simulate(model, trial, key=key)))(keys)
    received = jax.vmap(lambda own: model.network_inputs(own, trial))(states)
    noise = np.asarray(received - trial.inputs["target"])
    np.testing.assert_array_equal(noise[:, :4], 0.0)
    np.testing.assert_allclose(noise[:, 4:].std((0, 1)), [0.1, 3.0], rtol=5 / (2 * 500 * 8) ** 0.5)
    calm = jax.jit(jax.vmap(lambda key: popsim.simulate(model, reach(), key=key)))(keys)
    apart = np.abs(states.network.hidden - calm.network.hidden).max(axis=2)
    assert np.all(apart[:, :4] < 1e-7) and np.all(apart[:, 4:] > 1e-5)


def test_noise_of_a_sense_that_is_not_there_is_refused(as_users_run, getkey):
    hearing, inputs, vision = FeedbackNoise("hearing"), InputNoise(), FeedbackNoise("vision")
    loop, network_model = (
        relay_loop(CHANNELS, interventions=(hearing, inputs)),
        noisy_network_model((vision,)),
    )
    for model, noise, named in (
        (loop, hearing, "`channel` of"),
        (loop, inputs, "FeedbackNoise"),
        (network_model, vision, "`channel` of"),
    ):
        schedule = InterventionSchedule(jnp.array(1.0), jnp.ones(12, bool))
        with pytest.raises(ValueError, match=named):
            popsim.simulate(model, reach(interventions={noise.name: schedule}), key=getkey())
