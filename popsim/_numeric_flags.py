"""The flags of JAX on which the numbers of a training depend."""

import enum
from collections.abc import Mapping
from typing import Any

import jax

NUMERIC_FLAGS = (
    "jax_default_matmul_precision",
    "jax_enable_x64",
    "jax_explicit_x64_dtypes",
    "jax_high_dynamic_range_gumbel",
    "jax_random_seed_offset",
    "jax_softmax_custom_jvp",
    "jax_threefry_partitionable",
)


def numeric_flags() -> dict[str, bool | int | str | None]:
    """Return the flags of JAX that determine the numbers of a training, by name, as JSON values.

    They are those in force here, also by a context such as `jax.enable_x64(True)`. Left out are flags that
    only raise errors (`jax_numpy_dtype_promotion`, `jax_debug_nans`), those that change no more than the last
    digits, as machines do (optimisation levels, `XLA_FLAGS`), and `jax_default_prng_impl`, as keys are
    compared themselves. A flag that this JAX does not have is left out, too.
    """
    return {name: _plain(getattr(jax.config, name)) for name in NUMERIC_FLAGS if hasattr(jax.config, name)}


def _plain(value: Any) -> bool | int | str | None:
    return value.name if isinstance(value, enum.Enum) else value


def different_flags(then: Mapping[str, Any]) -> str:
    """Return a message on the flags that differ from those in force; empty if none does."""
    now = numeric_flags()
    different = [name for name in now if name in then and then[name] != now[name]]
    return "; ".join(f"`{name}`, {then[name]} then and {now[name]} now" for name in different)


def missing_flags(then: Mapping[str, Any]) -> list[str]:
    """Return the names of the flags that an earlier result of `numeric_flags` does not tell."""
    return [name for name in numeric_flags() if name not in then]
