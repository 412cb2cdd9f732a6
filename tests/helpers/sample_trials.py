"""Many trials of a task, as numpy arrays."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import popsim


@eqx.filter_jit
def drawn_trials(task, keys, batch):
    """The training trials of keys, in one program for all batches."""
    return jax.vmap(lambda key: task.trial(batch=batch, key=key))(keys)


def many_trials(task, key, n=2000, batch=0):
    """`n` training trials, each of a key of its own."""
    return jax.tree.map(np.asarray, drawn_trials(task, jax.random.split(key, n), jnp.asarray(batch)))


def few_trials(task, n=3, seed=1):
    """`n` training trials of its first batch."""
    keys = jax.random.split(jax.random.key(seed), n)
    return jax.vmap(lambda key: task.trial(batch=0, key=key))(keys)


def validation_trials(task):
    """The validation trials."""
    return jax.tree.map(np.asarray, task.validation_trials())


def trials_with_event(steps, *, name="go cue", dt=0.1, n_steps=6):
    """Stacked trials without inputs, in which an event comes at these steps."""

    def one(step):
        return popsim.Trial((), {}, (), popsim.Timeline(dt, n_steps, events={name: step}))

    return jax.vmap(one)(jnp.asarray(steps))


def share_error(fraction, n):
    """Five standard errors of a share among `n` draws."""
    return 5 * (fraction * (1 - fraction) / n) ** 0.5 + 1e-9


def one_hot(index, size):
    return np.eye(size)[np.asarray(index)]
