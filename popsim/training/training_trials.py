"""The trials of a training batch: drawn in the compiled step, and again whenever asked for."""

import equinox as eqx
import jax
from jaxtyping import Array, Int, PRNGKeyArray

from popsim.per_member import member_values, with_member_values
from popsim.randomness import as_key, check_draws_from_key, key_stream, trial_keys
from popsim.task import AbstractTask, differs_between_members
from popsim.trial import Trial


def training_trials(
    task: AbstractTask,
    batch_size: int,
    *,
    batch: int | Int[Array, ""],
    member_id: int | Int[Array, ""] | None,
    key: PRNGKeyArray,
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
    member_ids: Int[Array, "*member"],
    shared_trials: bool,
    key: PRNGKeyArray,
) -> Trial:
    """The trials that a training with `key` draws for one batch, as its compiled loop draws them.

    **Arguments:**

    - `task`, `batch_size`: the task, and how many trials.
    - `batch`: the number of the training batch.
    - `member_ids`: the numbers of the members; of a single model, its own.
    - `shared_trials`: whether all members see the same trials.
    - `key`: the `root_rng` of the training.

    **Returns:** the trials, with a leading member axis if `trials_differ`.

    **Raises:** `ValueError` if a `PerMember` of the task holds more or fewer values than there are members,
    or if the task draws elsewhere than from its key.
    """
    batch_key = jax.random.fold_in(as_key(key), batch)

    def drawn_for(member_id, values):
        own = with_member_values(task, values)
        drawn_for = None if shared_trials else member_id
        check_draws_from_key(
            "`trial` of the task", lambda own_key: own.trial(batch=batch, key=own_key), batch_key
        )
        return training_trials(own, batch_size, batch=batch, member_id=drawn_for, key=batch_key)

    if member_ids.ndim == 0:
        return drawn_for(member_ids, None)
    if not trials_differ(task, shared_trials=shared_trials):
        return drawn_for(None, None)
    return jax.vmap(drawn_for)(member_ids, member_values(task, member_ids.shape[0], "task"))


def trials_differ(task: AbstractTask, *, shared_trials: bool) -> bool:
    """Whether the members of an ensemble see different trials: drawn anew, or of another task."""
    return not shared_trials or differs_between_members(task)
