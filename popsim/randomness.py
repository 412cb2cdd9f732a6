"""Random keys: every consumer of random numbers draws from a stream of its own.

A training batch, a member, a trial and a time step are numbers that are folded into the key one after the
other. What is drawn for one trial of one member therefore never depends on how many members or trials
there are beside it, or on how the work was divided.
"""

import zlib

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key


def key_stream(key: Key[Array, ""], name: str) -> Key[Array, ""]:
    """The key of the consumer called `name`: independent of the keys of all other names."""
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def trial_keys(
    key: Key[Array, ""], n_trials: int, *, member_id: int | Int[Array, ""] | None
) -> Key[Array, " trial"]:
    """One key for each trial of a batch.

    **Arguments:**

    - `key`: the key of the batch.
    - `n_trials`: how many trials the batch has.
    - `member_id`: the member whose trials these are; None where all members share them.

    **Returns:** the keys; key `i` depends on `key`, `member_id` and `i` alone.
    """
    if member_id is not None:
        key = jax.random.fold_in(key, member_id)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(n_trials))
