"""Training batches made by hand, for tests of learning rules: models of every kind, and their trials."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from short_form import mostly_in_full

import popsim
from popsim.model import initial_state, simulate
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.randomness import key_stream, trial_keys
from popsim.training import TrainedBatch

DT = 0.01
NETWORKS = {"gru": GRUNetwork, "leaky": lambda *sizes, key: LeakyRNN(*sizes, noise_std=0.2, key=key)}


def error(states, trial, model):
    return jnp.mean((states.network.output - 1.0) ** 2)


@eqx.filter_jit
def _simulated(model, trials, loss, keys):
    def one_trial(trial, key):
        states = simulate(model, trial, key=key)
        return initial_state(model, trial, key=key), states, loss(states, trial, model)

    return jax.vmap(one_trial)(trials, keys)


def train_batch(model, trials, error=error, *, number=0, key):
    """What the forward pass of a training batch leaves, as `TrainedBatch` describes it."""
    loss = 1.0 * popsim.loss.FunctionTerm("error", error)
    keys = trial_keys(key, popsim.trial.n_trials(trials), member_id=None)
    starts, states, losses = _simulated(model, trials, loss, keys)
    return TrainedBatch(model, trials, keys, starts, states, losses, loss, jnp.asarray(number))


def bare_model(network, key):
    """A network by itself, and trials with random inputs."""
    return popsim.NetworkModel(network(3, 5, 2, key=key), dt=DT), random_trials(6, 3, key=key)


def random_trials(n_trials, n_inputs, *, n_steps=7, key):
    def trial(key):
        inputs = {"stimulus": jax.random.normal(key, (n_steps, n_inputs))}
        return popsim.Trial((), inputs, (), popsim.Timeline(dt=DT, n_steps=n_steps))

    return jax.vmap(trial)(trial_keys(key_stream(key, "trials"), n_trials, member_id=None))


def loop_model(network, key):
    """A network that moves a mass, with delayed noisy scaled vision, and reaches."""
    plant = popsim.plants.PointMass(solver=diffrax.Euler())
    task = popsim.tasks.RandomReaches(plant.workspace, duration=0.07)
    noise = popsim.GaussianNoise(0.01)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.02, noise=noise)}
    trials = jax.vmap(lambda key: task.trial(batch=0, key=key))(jax.random.split(key, 6))
    n_inputs = popsim.n_network_inputs(trials, plant, channels)
    scaling = {"vision": popsim.Scaling(0.05, 0.1)}
    model = popsim.SensorimotorLoop(
        network(n_inputs, 5, 2, key=key), plant, channels, popsim.MotorNoise(0.05, 0.01), scaling, dt=DT
    )
    return model, trials


MODELS = {
    f"{kind} {name}": (build, network)
    for kind, build in (("bare", bare_model), ("loop", loop_model))
    for name, network in NETWORKS.items()
}
MODEL_NAMES = mostly_in_full(MODELS, ("bare leaky", "loop gru"))


class LinearUnits(popsim.AbstractModel):
    """y_t = W x_t + b, the simplest model that learns."""

    weights: jax.Array
    bias: jax.Array

    def init(self, trial, *, key):
        return jnp.zeros_like(self.bias)

    def step(self, step_input, state, *, key):
        return self.weights @ step_input.inputs["stimulus"] + self.bias


LINEAR_SYNAPSES = popsim.training.rules.Synapses(
    lambda model: model.weights,
    pre=lambda activity: activity.trial.inputs["stimulus"],
    post=lambda activity: activity.states,
    where_bias=lambda model: model.bias,
)
