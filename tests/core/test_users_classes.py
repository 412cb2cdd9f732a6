"""Mistakes in a body, network, task or loss of one's own are answered with the method and the line."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_training
from small_training import KEY, RunningSum, assert_same, train

import popsim
from popsim.networks import LeakyRNN
from popsim.plants import PointMass
from popsim.tasks import RandomReaches

REACHES = RandomReaches(PointMass().workspace, duration=0.05)
PLACE = r" \(line \d+ of .*test_users_classes.py, .*\)"


def evaluated(model=None, task=None):
    model = small_training.build(KEY) if model is None else model
    return popsim.evaluate(model, RunningSum() if task is None else task, key=KEY)


def moved(**methods):
    """What a body of one's own does, of which a method is wrong."""
    body = type("Cart", (PointMass,), methods)()
    network = popsim.networks.GRUNetwork(6, 4, 2, key=KEY)
    channels = {"vision": popsim.SensoryChannel(popsim.vision)}
    evaluated(popsim.SensorimotorLoop(network, body, channels, dt=0.01), REACHES)


def thinking(**methods):
    """What a network of one's own does, of which a method is wrong."""
    network = type("Net", (LeakyRNN,), methods)(1, 5, 1, tau=0.05, key=KEY)
    evaluated(popsim.NetworkModel(network, dt=0.01))


METHODS = {  # the class, its methods, and what is said of them
    "another structure of dynamics": (
        moved,
        {"dynamics": lambda self, state, force, external_force: force},
        "`dynamics` of Cart must return what is like the state",
    ),
    "numpy in dynamics": (
        moved,
        {"dynamics": lambda self, state, force, external_force: np.exp(force)},
        "`dynamics` of Cart must compute with jax.numpy",
    ),
    "dynamics of another signature": (
        moved,
        {"dynamics": lambda self, state, force: state},
        r"`dynamics` of Cart, called with \(state, force, external_force\), raises TypeError",
    ),
    "a hand that is a tuple": (
        moved,
        {"hand": lambda self, state: (state.position, state.velocity)},
        r"`hand` of Cart must return a HandState\(position, velocity\), got a tuple",
    ),
    "a hand of another size": (
        moved,
        {"hand": lambda self, state: popsim.HandState(jnp.zeros(3), jnp.zeros(3))},
        r"`hand` of Cart must return a position of shape \(2,\)",
    ),
    "limits of another structure": (
        moved,
        {"enforce_limits": lambda self, state: state.position},
        "`end_step` of Cart must return what is like the state",
    ),
    "numpy in what is reachable": (
        moved,
        {"is_reachable": lambda self, position: np.isfinite(position).all()},
        "`is_reachable` of Cart must compute with jax.numpy",
    ),
    "a position as state at rest": (
        moved,
        {"rest_state": lambda self, position: position},
        "`hand` of Cart, .* AttributeError.*`rest_state` returned",
    ),
    "a hidden state without a key": (
        thinking,
        {"init": lambda self: jnp.zeros(5)},
        r"`init` of Net, called with \(\*, key\), raises TypeError",
    ),
    "a step of another structure": (
        thinking,
        {"step": lambda self, inputs, hidden, *, key: (hidden, hidden)},
        "`step` of Net must return what is like the hidden state",
    ),
    "arguments of a step in another order": (
        thinking,
        {"step": lambda self, hidden, inputs, *, key: jnp.stack([*hidden]).reshape(5)},
        f"`step` of Net, .* reshape .*{PLACE}",
    ),
    "numpy in a step": (
        thinking,
        {"step": lambda self, inputs, hidden, *, key: np.tanh(hidden)},
        "`step` of Net must compute with jax.numpy",
    ),
    "a readout of what is missing": (
        thinking,
        {"read_out": lambda self, hidden: self.w_out @ hidden},
        rf"`read_out` of Net, called with \(hidden\), raises AttributeError: .*w_out.*{PLACE}",
    ),
    "a readout of another size": (
        thinking,
        {"read_out": lambda self, hidden: hidden},
        r"`read_out` of Net must return an array of shape \(1,\)",
    ),
}


@pytest.mark.parametrize("mistake", METHODS)
def test_a_mistake_in_a_method_is_named(mistake, as_users_run):
    make, methods, said = METHODS[mistake]
    with pytest.raises(ValueError, match=said) as refused:
        make(**methods)
    assert "Traced" not in str(refused.value)


class IfInTrial(RunningSum):
    def trial(self, *, batch, key):
        trial = super().trial(batch=batch, key=key)
        return trial if trial.inputs[0, 0] > 0 else jax.tree.map(jnp.negative, trial)


class NumpyInTrial(RunningSum):
    def trial(self, *, batch, key):
        return super().trial(batch=batch, key=jax.random.fold_in(key, np.exp(jax.random.uniform(key))))


@pytest.mark.parametrize("task", [IfInTrial(), NumpyInTrial()], ids=["if", "numpy"])
def test_a_trial_that_needs_the_numbers_of_an_array_is_named(task, as_users_run):
    with pytest.raises(
        ValueError, match=rf"`trial` of the task must compute with jax.numpy \(jnp\).*{PLACE}"
    ):
        train(1, n_members=0, task=task)


LOSSES = {
    "float()": (
        lambda states, trial, model: math.sqrt(states.network.output.sum()),
        "compute with jax.numpy",
    ),
    "if": (
        lambda states, trial, model: 0.0 if trial.targets[-1, 0] > 0 else states.network.output.sum(),
        "jnp.where in place of `if`",
    ),
    "a missing key": (
        lambda states, trial, model: trial.conditions["direction"],
        "raises KeyError: 'direction'",
    ),
    "a missing attribute": (lambda states, trial, model: states.hand, "AttributeError: .* attribute 'hand'"),
    "two arguments": (lambda states, trial: 0.0, r"called with \(states, trial, model\), raises TypeError"),
    "no value": (lambda states, trial, model: None, "must be a scalar, got NoneType"),
    "each step": (lambda states, trial, model: states.network.output[:, 0], r"must be a scalar, got shape"),
}


@pytest.mark.parametrize("function, said", LOSSES.values(), ids=LOSSES)
def test_a_mistake_in_a_loss_is_named(function, said, as_users_run):
    task = RunningSum(1.0 * popsim.FunctionTerm("own", function))
    with pytest.raises(ValueError, match=rf"^term 'own' of `loss`.* {said}"):
        evaluated(task=task)


@pytest.mark.full
def test_a_healthy_training_is_none_for_debug_nans():
    usual = train(2, n_members=0, save_model_trainables=True)
    with jax.debug_nans(True):
        model, history = train(2, n_members=0, save_model_trainables=True)
    assert_same(model, usual[0])
    assert_same(history.model_trainables, usual[1].model_trainables)
