"""Checks of what population updates return."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from popsim.per_member import aligned_mask
from popsim.store.files import is_plain_name

Named = dict[str, np.ndarray]


def checked_arrays(subject: str, arrays: Any, n_members: int) -> Named:
    """Return arrays by name, in the dtypes of JAX."""
    if not isinstance(arrays, Mapping):
        raise ValueError(f"{subject} must be arrays by name, got {type(arrays).__name__}.")
    checked = {name: np.asarray(jnp.asarray(array)) for name, array in arrays.items()}
    for name, array in checked.items():
        if not isinstance(name, str) or not is_plain_name(name):  # they name arrays on disk
            raise ValueError(f"{subject} must have plain names without '/', got {name!r}.")
        if array.shape[:1] != (n_members,):
            raise ValueError(
                f"{subject} must lead with the {n_members} members, got shape {array.shape} for {name!r}."
            )
    return checked


def checked_leaf(subject: str, new: Any, old: Any) -> Array:
    """Return a leaf of a model that an update changed, as an array of the dtype of the one before."""
    if not eqx.is_array(old) or np.shape(new) != old.shape:
        raise ValueError(f"{subject} must keep its shape {np.shape(old)}, got {np.shape(new)}.")
    return jnp.asarray(new).astype(old.dtype)


def checked_mask(subject: str, values: Any, n_members: int) -> Bool[np.ndarray, " member"]:
    if np.shape(values) != (n_members,) or np.asarray(values).dtype != bool:
        raise ValueError(
            f"{subject} must be True or False for each of the {n_members} members, got {values!r:.200}."
        )
    return np.asarray(values)


def checked_like(subject: str, before: Mapping[str, np.ndarray], now: Any) -> Named:
    """Return arrays in the dtypes of those before, whose names and shapes they must have."""
    expected = {name: array.shape for name, array in before.items()}
    is_named = isinstance(now, Mapping)
    shapes = {name: np.shape(array) for name, array in now.items()} if is_named else type(now).__name__
    if shapes != expected:
        raise ValueError(f"{subject} must keep names and shapes, {expected}, got {shapes}.")
    return {name: np.asarray(now[name]).astype(array.dtype) for name, array in before.items()}


def where_active(active: Bool[np.ndarray, " member"], now: Named, before: Mapping[str, np.ndarray]) -> Named:
    return {name: np.where(aligned_mask(active, array), array, before[name]) for name, array in now.items()}
