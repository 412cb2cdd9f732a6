"""What the tests of motor tasks share: many trials, their statistics, and a hand that does a task."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sample_trials import drawn_trials

import popsim

WORKSPACE = popsim.Workspace([-0.1, 0.3], [0.2, 0.5])
CENTER = np.array([0.05, 0.4])


def many_trials(task, key, n=2000, *, batch=0):
    return drawn_trials(task, jax.random.split(key, n), jnp.asarray(batch))


@eqx.filter_jit
def validation(task):
    return task.validation_trials()


def one_of(trials, index):
    return jax.tree.map(lambda leaf: leaf[index], trials)


def steps_from(event, n_steps):
    """Whether a step is at or after an event, for events of many trials: (trial, time)."""
    return np.arange(n_steps) >= np.asarray(event)[:, None]


def assert_uniform(values, low, high):
    """Mean, variance and ends are those of numbers drawn evenly from `low` to `high`."""
    unit = (np.asarray(values) - low) / (high - low)
    assert unit.min() >= -1e-6 and unit.max() <= 1 + 1e-6
    np.testing.assert_allclose(unit.mean(0), 0.5, atol=5 / (12 * len(unit)) ** 0.5)
    np.testing.assert_allclose(unit.var(0), 1 / 12, atol=5 / (180 * len(unit)) ** 0.5)


def assert_share(happens, fraction):
    happens = np.asarray(happens)
    assert abs(happens.mean() - fraction) <= 5 * (fraction * (1 - fraction) / len(happens)) ** 0.5


def loss_of_hand(task, trial, position):
    """The terms of the loss of a trial in which the hand is at `position` (time, space), and at rest."""
    plant = popsim.plants.PointMass()
    idle = popsim.networks.NetworkState(jnp.zeros(3), jnp.zeros(2))

    def at_rest(place):
        return popsim.states.LoopState.at_rest(*popsim.plants.base.evaluate_rest(plant, place), idle)

    states = jax.vmap(at_rest)(position)
    network = popsim.networks.LeakyRNN(1, 3, 2, key=jax.random.key(0))
    terms = eqx.filter_jit(task.loss)(states, trial, popsim.NetworkModel(network, dt=0.01)).terms
    return {name: float(value) for name, value in terms.items()}
