"""Small networks with a point mass learn a motor task in seconds."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import popsim
from popsim.training import TaskTrainer, adam

WORKSPACE = popsim.Workspace.around(jnp.zeros(2), 0.2)
DT = 0.02


def build_loop(task, interventions):
    """Builds the model of one member: a GRU, delayed vision, a mass of 1 kg by Euler's method."""
    plant = popsim.plants.PointMass(workspace=WORKSPACE, solver=diffrax.Euler())
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.02)}
    trials = task.validation_trials()
    n_inputs = popsim.n_network_inputs(trials, plant, channels)
    scaling = {"vision": popsim.Scaling(jnp.zeros(4), jnp.array([0.1, 0.1, 0.5, 0.5]))} | {
        name: popsim.Scaling(WORKSPACE.center, WORKSPACE.half_widths)
        for name in trials.inputs
        if name.split()[0] in ("target", "obstacle") and trials.inputs[name].shape[-1] == 2
    }

    def build(key):
        network = popsim.networks.GRUNetwork(n_inputs, 32, plant.n_commands, key=key)
        return popsim.SensorimotorLoop(
            network, plant, channels, scaling=scaling, interventions=interventions, dt=DT
        )

    return build


def train_motor(task, n_batches, interventions=(), *, learning_rate=1e-2, batch_size=32):
    """Two members before and after training."""
    build = build_loop(task, interventions)
    untrained = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    optimizer = adam(learning_rate, clip_norm=1.0)
    trained, _ = TaskTrainer(optimizer)(
        task,
        untrained,
        n_batches,
        batch_size,
        lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=True,
        key=jax.random.key(1),
    )
    return untrained, trained


def states_of_drawn(ensemble, task, n_drawn):
    """States of all members in trials drawn as for training, and these trials."""
    trials = popsim.sample_trials(task, n_drawn, batch=0, key=jax.random.key(3))
    return popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(2)).states, trials


def distance_to_target(ensemble, task, *, n_drawn=0):
    """How far the cursor is from the target, in m: (member, trial, time).

    In the validation trials or, if `n_drawn` is not 0, in so many trials as for training.
    """
    keys = jax.random.split(jax.random.key(3), n_drawn)
    drawn = jax.vmap(lambda key: task.trial(batch=0, key=key))(keys) if n_drawn else None
    trials = task.validation_trials() if drawn is None else drawn
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(2)).states
    return np.linalg.norm(states.cursor.position - trials.targets.position, axis=-1)


def within(trials, epoch):
    """Which steps of which trials are within an epoch: (trial, time)."""
    return np.asarray(jax.vmap(lambda timeline: timeline.in_epoch(epoch))(trials.timeline))
