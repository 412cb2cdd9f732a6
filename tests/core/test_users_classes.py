"""Mistakes in a body, network, task or loss of one's own are answered with the method and the line."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_training
from small_training import KEY, RunningSum, train

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


METHODS = [  # who runs the class, its method, and what is said of it
    (moved, "dynamics", lambda self, state, force, external_force: force, "return what is like the state"),
    (moved, "dynamics", lambda self, state, force, external_force: np.exp(force), "compute with jax.numpy"),
    (moved, "hand", lambda self, state: (state.position, state.velocity), "must return a HandState.*a tuple"),
    (moved, "is_reachable", lambda self, position: np.isfinite(position).all(), "compute with jax.numpy"),
    (moved, "rest_state", lambda self, position: position, ".* AttributeError.*`rest_state` returned"),
    (thinking, "step", lambda self, x, hidden, *, key: (hidden, hidden), "is like the hidden state"),
    (thinking, "step", lambda self, hidden, x, *, key: jnp.stack([*hidden]).reshape(5), f"reshape .*{PLACE}"),
    (thinking, "read_out", lambda self, hidden: self.w_out @ hidden, rf"AttributeError: .*w_out.*{PLACE}"),
]


@pytest.mark.parametrize(("run", "name", "method", "said"), METHODS)
def test_a_mistake_in_a_method_is_named(run, name, method, said, as_users_run):
    named = "hand" if name == "rest_state" else name  # which is the first that reads it
    with pytest.raises(ValueError, match=f"`{named}` of .*{said}") as refused:
        run(**{name: method})
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


def root_of_sum(states, trial, model):
    return math.sqrt(states.network.output.sum())


def if_right(states, trial, model):
    return 0.0 if trial.targets[-1, 0] > 0 else states.network.output.sum()


LOSSES = [
    (root_of_sum, "compute with jax.numpy"),
    (if_right, "jnp.where in place of `if`"),
    (lambda states, trial, model: trial.conditions["direction"], "raises KeyError: 'direction'"),
    (lambda states, trial: 0.0, r"called with \(states, trial, model\), raises TypeError"),
    (lambda states, trial, model: states.network.output[:, 0], r"must be a scalar, got shape"),
]


@pytest.mark.parametrize(("function", "said"), LOSSES)
def test_a_mistake_in_a_loss_is_named(function, said, as_users_run):
    task = RunningSum(1.0 * popsim.FunctionTerm("own", function))
    with pytest.raises(ValueError, match=rf"^term 'own' of `loss`.* {said}"):
        evaluated(task=task)
