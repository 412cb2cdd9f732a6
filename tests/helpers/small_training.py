"""A training that is compiled in a second: a small rate network that sums up its noisy input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import popsim
from popsim.training import TaskTrainer, Training, adam
from popsim.training.loop.training_plan import plan_training

KEY = jax.random.key(3)
N_STEPS = 6


def squared_error(states, trial, model):
    return jnp.mean((states.network.output - trial.targets) ** 2)


def activity(states, trial, model):
    return jnp.mean(states.network.hidden**2)


def error_and_activity():
    error, cost = (popsim.FunctionTerm(f.__name__, f) for f in (squared_error, activity))
    return 1.0 * error + 1e-2 * cost


class RunningSum(popsim.AbstractTask):
    loss: popsim.Loss = eqx.field(default_factory=lambda: error_and_activity())
    scale: jax.Array = eqx.field(default_factory=lambda: jnp.asarray(1.0))

    def trial(self, *, batch, key):
        inputs = self.scale * jax.random.normal(key, (N_STEPS, 1))
        return popsim.Trial((), inputs, jnp.cumsum(inputs, axis=0), popsim.Timeline(dt=0.01, n_steps=N_STEPS))

    def validation_trials(self):
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 4))


def build(key, *, n_units=5, noise_std=0.1, tau=0.05):
    network = popsim.networks.LeakyRNN(1, n_units, 1, tau=tau, noise_std=noise_std, key=key)
    return popsim.NetworkModel(network, dt=0.01)


def network(model):
    return model.network


OPTIMIZER = adam(1e-2, clip_norm=1.0)  # one for all, so that tests share compiled programs


def train(
    n_batches=6, *, n_members=2, ensemble=None, task=None, trainer=None, where_train=network, **options
):
    """Train `n_members` networks, or one model if that is 0, for batches of 4 trials."""
    if ensemble is None:
        ensemble = popsim.make_ensemble(build, max(n_members, 1), key=jax.random.key(0))
        ensemble = ensemble if n_members else popsim.member(ensemble, 0)
    trainer = trainer or TaskTrainer(OPTIMIZER)
    task = RunningSum() if task is None else task
    options = {"ensembled": n_members > 0, "log_step": 100, "disable_tqdm": True, "key": KEY, **options}
    return trainer(task, ensemble, n_batches, options.pop("batch_size", 4), where_train, **options)


def planned(*arguments, trainer=None, **options):
    """The plan of `train` with these arguments, of which nothing is compiled."""
    trainer = trainer or TaskTrainer(OPTIMIZER)
    return train(
        *arguments, trainer=lambda *own, **more: plan_training(trainer, Training(*own, **more)), **options
    )


def arrays_of(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype") and not is_key(leaf)]


def is_key(leaf):
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def assert_same(one, other, **tolerance):
    """Equal bits or, where a tolerance is given, about equal numbers."""
    ours, theirs = arrays_of(one), arrays_of(other)
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        if tolerance:
            np.testing.assert_allclose(a, b, **tolerance)
        else:
            np.testing.assert_array_equal(a, b)


def member_of(tree, index):
    return jax.tree.map(lambda leaf: leaf[index] if hasattr(leaf, "shape") else leaf, tree)
