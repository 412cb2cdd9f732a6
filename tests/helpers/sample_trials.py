"""Many trials of a task, as numpy arrays."""

import jax
import numpy as np


def many_trials(task, key, n=2000, batch=0):
    """`n` training trials, each of a key of its own."""
    draw = jax.jit(jax.vmap(lambda key: task.trial(batch=batch, key=key)))
    return jax.tree.map(np.asarray, draw(jax.random.split(key, n)))


def few_trials(task, n=3, seed=1):
    """`n` training trials of its first batch."""
    keys = jax.random.split(jax.random.key(seed), n)
    return jax.vmap(lambda key: task.trial(batch=0, key=key))(keys)


def validation_trials(task):
    """The validation trials."""
    return jax.tree.map(np.asarray, task.validation_trials())


def share_error(fraction, n):
    """Five standard errors of a share among `n` draws."""
    return 5 * (fraction * (1 - fraction) / n) ** 0.5 + 1e-9


def one_hot(index, size):
    return np.eye(size)[np.asarray(index)]
