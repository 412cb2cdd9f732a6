"""Random keys: every consumer of random numbers draws from a stream of its own.

A training batch, a member, a trial and a time step are numbers that are folded into the key one after the
other. What is drawn for one trial of one member therefore never depends on how many members or trials
there are beside it, or on how the work was divided. Keys are those of `jax.random.key`; from keys of
`jax.random.PRNGKey` the same is drawn.
"""

import contextlib
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray


def as_key(key: Any, name: str = "key") -> Key[Array, ""]:
    """A key of `jax.random.key`, also from one of `jax.random.PRNGKey`, with the same draws.

    **Arguments:**

    - `key`: the key that was given.
    - `name`: of the argument, for the error.

    **Raises:** `ValueError` if it is not one key.
    """
    if hasattr(key, "dtype"):
        if key.dtype == np.uint32:
            with contextlib.suppress(TypeError, ValueError):  # of a shape that no key has
                key = jax.random.wrap_key_data(key)
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
            return key
        given = f"an array of shape {key.shape} and type {key.dtype}"
    else:
        given = repr(key)
    raise ValueError(f"`{name}` must be one key, such as jax.random.key(0), got {given}.")


def key_stream(key: PRNGKeyArray, name: str) -> Key[Array, ""]:
    """The key of the consumer called `name`: independent of the keys of all other names."""
    return jax.random.fold_in(as_key(key), zlib.crc32(name.encode()))


def trial_keys(
    key: PRNGKeyArray, n_trials: int, *, member_id: int | Int[Array, ""] | None
) -> Key[Array, " trial"]:
    """One key for each trial of a batch.

    **Arguments:**

    - `key`: the key of the batch.
    - `n_trials`: how many trials the batch has.
    - `member_id`: the member whose trials these are; None where all members share them.

    **Returns:** the keys; key `i` depends on `key`, `member_id` and `i` alone.
    """
    key = as_key(key)
    if member_id is not None:
        key = jax.random.fold_in(key, member_id)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(n_trials))
