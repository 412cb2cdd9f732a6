"""The trials of a training batch: drawn in the compiled step, and again whenever asked for."""

import equinox as eqx
import jax
from jaxtyping import Array, Int, Key

from popsim.randomness import key_stream, trial_keys
from popsim.task import AbstractTask
from popsim.trial import Trial


def training_trials(
    task: AbstractTask,
    batch_size: int,
    *,
    batch: int | Int[Array, ""],
    member_id: int | Int[Array, ""] | None,
    key: Key[Array, ""],
) -> Trial:
    """The trials of one training batch of one member, stacked.

    **Arguments:**

    - `task`: the task.
    - `batch_size`: how many trials.
    - `batch`: the number of the training batch.
    - `member_id`: the member, or None for the trials that all members share.
    - `key`: the key of the batch.
    """
    keys = trial_keys(key, batch_size, member_id=member_id)
    return jax.vmap(lambda k: task.trial(batch=batch, key=key_stream(k, "specification")))(keys)


@eqx.filter_jit
def trials_of_batch(
    task: AbstractTask,
    batch_size: int,
    batch: Int[Array, ""],
    *,
    member_ids: Int[Array, " member"] | None,
    shared_trials: bool,
    key: Key[Array, ""],
) -> Trial:
    """The trials that a training with `key` draws for one batch, as its compiled loop draws them.

    **Arguments:**

    - `task`, `batch_size`: the task, and how many trials.
    - `batch`: the number of the training batch.
    - `member_ids`: the members of the ensemble; None for a single model.
    - `shared_trials`: whether all members see the same trials.
    - `key`: the `root_rng` of the training.

    **Returns:** the trials, with a leading member axis if each member has its own.
    """
    batch_key = jax.random.fold_in(key, batch)

    def drawn_for(member_id):
        return training_trials(task, batch_size, batch=batch, member_id=member_id, key=batch_key)

    if shared_trials:
        return drawn_for(None)
    return drawn_for(0) if member_ids is None else jax.vmap(drawn_for)(member_ids)
