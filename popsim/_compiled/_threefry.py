"""The random numbers of JAX's default generator, in operations that XLA fuses into one.

`jax.random` hashes on a CPU by a loop for each draw, which takes several times as long to compile and to run.

The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror & Shaw 2011, Parallel random numbers: as
easy as 1, 2, 3, SC '11), with the constants and the counters of `jax.random`; the tests compare all bits.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Key, UInt32

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
Words = tuple[UInt32[Array, "..."], UInt32[Array, "..."]]


def has_default_keys(keys: Key[Array, "..."]) -> bool:
    """Return whether these are keys of JAX's default generator, as it is used by default."""
    return jax.random.key_impl(keys) == "threefry2x32" and jax.config.values["jax_threefry_partitionable"]


def bits(keys: Key[Array, "*keys trial"], shape: tuple[int, ...]) -> UInt32[Array, "*keys_and_shape trial"]:
    """Return `jax.random.bits` of a shape for each key."""
    first, second = _hash(keys, _counts(shape), len(shape))
    return first ^ second


def split(keys: Key[Array, "*keys trial"], shape: tuple[int, ...]) -> Key[Array, "*keys_and_shape trial"]:
    """Return `jax.random.split` for each key."""
    return _as_keys(_hash(keys, _counts(shape), len(shape)))


def fold_in(
    keys: Key[Array, "*keys trial"], data: UInt32[Array, "*data #trial"]
) -> Key[Array, "*folded trial"]:
    """Return `jax.random.fold_in` for each key, broadcast against the data: one key may get several."""
    return _as_keys(_hash(keys, data, 0))


def _counts(shape: tuple[int, ...]) -> UInt32[Array, "*shape 1"]:
    return jnp.arange(math.prod(shape), dtype=np.uint32).reshape(*shape, 1)


def _as_keys(words: Words) -> Key[Array, "..."]:
    return jax.random.wrap_key_data(jnp.stack(words, axis=-1), impl="threefry2x32")


def _hash(keys: Key[Array, "*keys trial"], counts: ArrayLike, n_axes: int) -> Words:
    """Return the hash of counts under each key; keys get `n_axes` axes before that of the trials."""
    data = jax.random.key_data(keys)
    place = tuple(range(keys.ndim - 1, keys.ndim - 1 + n_axes))
    return _rounds(*(jnp.expand_dims(data[..., word], place) for word in (0, 1)), counts)


@functools.partial(jax.jit, inline=True)  # so that it is traced once for each shape
def _rounds(first: UInt32[Array, "..."], second: UInt32[Array, "..."], counts: UInt32[Array, "..."]) -> Words:
    key = (first, second, first ^ second ^ np.uint32(PARITY))
    second = second + counts  # the upper half of a count is zero
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            first = first + second
            second = (second << np.uint32(rotation)) | (second >> np.uint32(32 - rotation))
            second = first ^ second
        first = first + key[(group + 1) % 3]
        second = second + key[(group + 2) % 3] + np.uint32(group + 1)
    return first, second
