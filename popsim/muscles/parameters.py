"""Parameters of muscles: each is one number, or one for each muscle."""

from collections.abc import Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from popsim.checks import check_non_negative, check_positive, is_traced

ModuleType = TypeVar("ModuleType", bound=eqx.Module)


def check_parameters(
    module: eqx.Module, *, positive: Sequence[str] = (), non_negative: Sequence[str] = ()
) -> None:
    """Raise `ValueError` unless parameters have the right sign, and all belong to the same muscles.

    **Arguments:**

    - `module`: a muscle or a part of one. Each array in it must be one number, or one for each muscle.
    - `positive`: the names of the fields that must be above zero.
    - `non_negative`: the names of those that may be zero.
    """
    for name in positive:
        check_positive(name, getattr(module, name))
    for name in non_negative:
        check_non_negative(name, getattr(module, name))
    n_muscles = None
    for path, value in jax.tree_util.tree_leaves_with_path(module):
        if value.ndim == 0:
            continue
        if value.ndim > 1 or value.shape[0] != (n_muscles or value.shape[0]):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            expected = "" if n_muscles is None else f" of {n_muscles}"
            raise ValueError(
                f"`{name}` must be one number, or one for each muscle{expected}, got shape {value.shape}."
            )
        n_muscles = value.shape[0]


def check_above(name: str, value: Array, bound: Array | float) -> None:
    """Raise `ValueError` unless `value` is above `bound`, as far as both are known."""
    if not (is_traced(value) or is_traced(bound)) and not np.all(np.asarray(value) > np.asarray(bound)):
        raise ValueError(f"`{name}` must be above {bound}, got {value}.")


def join(first: ModuleType, second: eqx.Module) -> ModuleType:
    """The muscles of `first`, then those of `second`.

    **Arguments:**

    - `first`, `second`: of one class. Each of their arrays is one number, which is repeated, or has the
        muscles on its first axis; where all are one number, they stand for one muscle.

    **Returns:** a module of that class, where every parameter is one for each muscle.

    **Raises:** `ValueError` if they are not of one class and structure.
    """
    if jax.tree.structure(first) != jax.tree.structure(second):
        raise ValueError(
            f"`other` must be of the same class and options, a {type(first).__name__}, got {second!r}."
        )
    n_first, n_second = _n_muscles(first), _n_muscles(second)

    def of_all(a: Array, b: Array) -> Array:
        a = jnp.broadcast_to(a, (n_first,)) if a.ndim == 0 else a
        b = jnp.broadcast_to(b, (n_second,)) if b.ndim == 0 else b
        if a.shape[1:] != b.shape[1:]:
            raise ValueError(
                f"`other` must be of the same body, with parameters of shape {a.shape[1:]} for a muscle, "
                f"got {b.shape[1:]}."
            )
        return jnp.concatenate([a, b])

    return jax.tree.map(of_all, first, second)


def _n_muscles(muscles: eqx.Module) -> int:
    return max(leaf.shape[0] if leaf.ndim else 1 for leaf in jax.tree.leaves(muscles))
