"""The training trials of a task as numpy arrays, for networks that are trained outside of popsim."""

import itertools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from popsim.checks import check_positive_int
from popsim.network_input import network_input
from popsim.output_target import OutputTarget
from popsim.per_member import check_of_one_member
from popsim.randomness import as_key
from popsim.task import AbstractTask
from popsim.training.training_trials import trials_of_batch
from popsim.trial import Trial

Batch = tuple[
    Float[np.ndarray, "time batch features"],
    Float[np.ndarray, "time batch outputs"],
    Float[np.ndarray, "time batch"],
]


def supervised_batches(
    task: AbstractTask, batch_size: int, *, start_batch: int = 0, key: PRNGKeyArray
) -> Iterator[Batch]:
    """Endless batches `(inputs, targets, mask)`, time first as PyTorch's recurrent layers have it.

    - `inputs`: (time, batch, features), the inputs by name in alphabetical order, as a `NetworkModel`
      receives them;
    - `targets`: (time, batch, outputs), the values of an `OutputTarget`; for a reach position (m), then
      velocity (m/s) of the hand; else all targets in the order of their names;
    - `mask`: (time, batch), how much each step counts: the counts of an `OutputTarget`, else ones.

    All are numpy arrays of the caller's own, of the default floating-point type. They are the trials that
    `TaskTrainer` draws for one model with this `key` and `batch_size`. With PyTorch:

    ```python
    for inputs, targets, mask in itertools.islice(supervised_batches(task, 64, key=jax.random.key(0)), 1000):
        outputs, _ = network(torch.from_numpy(inputs))
        error = (outputs - torch.from_numpy(targets)).square().mean(-1)
        loss = (torch.from_numpy(mask) * error).sum() / mask.sum()
    ```

    **Arguments:**

    - `task`: the task of one member.
    - `batch_size`: how many trials.
    - `start_batch`: the number of the first batch, for tasks that change during training.
    - `key`: from which trials are drawn.

    **Raises:** `ValueError` if `task` holds a `PerMember`, `batch_size` is not positive, or `start_batch`
    is negative.
    """
    check_of_one_member("task", task)
    check_positive_int("batch_size", batch_size)
    if start_batch < 0:
        raise ValueError(f"`start_batch` must be at least 0, got {start_batch}.")
    return _batches(task, batch_size, start_batch, as_key(key))


def _batches(task: AbstractTask, batch_size: int, start_batch: int, key: Key[Array, ""]) -> Iterator[Batch]:
    for batch in itertools.count(start_batch):
        trials = trials_of_batch(
            task, batch_size, jnp.asarray(batch), member_ids=jnp.asarray(0), shared_trials=False, key=key
        )
        inputs, targets, mask = _as_arrays(trials)
        yield np.array(inputs), np.array(targets), np.array(mask)


@eqx.filter_jit
def _as_arrays(trials: Trial) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Inputs, targets and mask of stacked trials, time first."""

    def of_trial(trial):
        received = jax.vmap(lambda inputs: network_input(inputs, {}, {}))(trial.inputs)
        if isinstance(trial.targets, OutputTarget):
            return received, trial.targets.values, trial.targets.counts
        ones = jnp.ones(trial.timeline.n_steps, received.dtype)
        return received, _flat(trial.targets, trial.timeline.n_steps), ones

    return jax.vmap(of_trial, out_axes=1)(trials)


def _flat(tree: PyTree[Array], n_steps: int) -> Float[Array, "time features"]:
    leaves = [leaf.reshape(n_steps, -1) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves, axis=1) if leaves else jnp.zeros((n_steps, 0))
