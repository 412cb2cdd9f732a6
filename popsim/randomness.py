"""Random keys: an independent stream per consumer, independent of the size of the ensemble.

The numbers of the training batch, the member, the trial and the time step are folded into the key one after
the other, so the draws for one trial of one member never depend on the number of members or trials, or on how
the work is divided. Keys are those of `jax.random.key`; a `jax.random.PRNGKey` of JAX's default
implementation gives the same draws. Others, whose draws depend on how keys are mapped, are refused.
"""

import contextlib
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Integer, Key, PRNGKeyArray

from popsim._compiled import is_tracing, jit_fast_compile
from popsim._shared.checks import check_instance, short_repr

__all__ = ["key_stream"]

IMPLEMENTATION = "threefry2x32"
"""The implementation of keys that are made from seeds, whatever `jax_default_prng_impl` is."""
IMPLEMENTATIONS = {IMPLEMENTATION}
"""Those that are taken: under `jax.vmap` they draw what they draw from each key alone."""


def seed_key(seed: int | Integer[Array, ""]) -> Key[Array, ""]:
    """Return the key of a seed, the same under every `jax_default_prng_impl`."""
    return jax.random.key(seed, impl=IMPLEMENTATION)


def check_seed(name: str, seed: int) -> None:
    """Raise `ValueError` unless a whole number is a seed, of 32 bits."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"`{name}` must be from 0 to 2**32 - 1, got {seed}.")


def as_key(key: Any, name: str = "key") -> Key[Array, ""]:
    """Convert a key of `jax.random.key`, or a `PRNGKey` of JAX's default implementation, to the former."""
    if hasattr(key, "dtype"):
        if key.dtype == np.uint32:
            with contextlib.suppress(TypeError, ValueError):  # not the shape of a key
                key = jax.random.wrap_key_data(key)
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
            if (implementation := jax.random.key_impl(key)) in IMPLEMENTATIONS:
                return key
            raise ValueError(
                f'`{name}` must be a key such as jax.random.key(0, impl="{IMPLEMENTATION}"), got one of '
                f"{implementation}, whose draws depend on how keys are mapped."
            )
        description = f"an array of shape {key.shape} and type {key.dtype}"
    else:
        description = short_repr(key)
    raise ValueError(f"`{name}` must be one key, such as jax.random.key(0), got {description}.")


def key_stream(key: PRNGKeyArray, name: str) -> Key[Array, ""]:
    """Return the key of the consumer called `name`, independent of the keys of all other names."""
    check_instance("name", name, str, "the name of a consumer")
    key, number = as_key(key), np.uint32(zlib.crc32(name.encode()))
    return jax.random.fold_in(key, number) if is_tracing() else folded_key(key, number)


def key_of_seed(seed: int, name: str) -> Key[Array, ""]:
    """Return `key_stream(seed_key(seed), name)` of a seed below 2**32."""
    return _stream_of_seed(np.uint32(seed), np.uint32(zlib.crc32(name.encode())))


@jit_fast_compile
def _stream_of_seed(seed: Any, number: Any) -> Key[Array, ""]:
    return jax.random.fold_in(seed_key(seed), number)


@jit_fast_compile
def folded_key(key: Key[Array, ""], number: Any) -> Key[Array, ""]:
    """Return `jax.random.fold_in` of a key, compiled once."""
    return jax.random.fold_in(key, number)


def trial_keys(
    key: PRNGKeyArray, n_trials: int, *, member_id: int | Int[Array, ""] | None
) -> Key[Array, " trial"]:
    """Return one key per trial of a batch; key i depends only on `key`, `member_id` and i."""
    key = as_key(key)
    if member_id is not None:
        key = jax.random.fold_in(key, member_id)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(n_trials))
