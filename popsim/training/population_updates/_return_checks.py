"""Checks of what population updates return."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from popsim._checks import check_castable
from popsim.per_member import aligned_mask
from popsim.store.files import is_plain_name

Named = dict[str, np.ndarray]


def as_named_arrays(subject: str, arrays: Any, n_members: int) -> Named:
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


def changed_leaves(label: str, before: Any, after: Any, recorded: PyTree[bool]) -> dict[int, Array]:
    """Return the leaves of a model that an update changed, by their number, in the dtypes of those before."""
    if after is before:
        return {}
    old, structure = jax.tree.flatten_with_path(before)
    new, structure_after = jax.tree.flatten(after)
    if structure_after != structure:
        raise ValueError(f"{label} must return a model of the structure given, got {structure_after}.")
    may_change = jax.tree.leaves(
        jax.tree.map(
            lambda leaf, changes: None if leaf is None else bool(changes), before, recorded, is_leaf=_is_none
        )
    )
    changed = {}
    for index, (path, leaf) in enumerate(old):
        if new[index] is leaf:
            continue
        where = f"`model{jax.tree_util.keystr(path)}`"
        if not may_change[index]:
            raise ValueError(
                f"{label} must change leaves of the model that are trained, or that model updates change: "
                f"{where} is constant in this training."
            )
        if np.shape(new[index]) != leaf.shape:
            raise ValueError(
                f"{where} of {label} must keep its shape {leaf.shape}, got {np.shape(new[index])}."
            )
        check_castable(f"{where} of {label}", jnp.result_type(new[index]), leaf.dtype)
        changed[index] = jnp.asarray(new[index]).astype(leaf.dtype)
    return changed


def _is_none(node: Any) -> bool:
    return node is None


def as_member_mask(subject: str, values: Any, n_members: int) -> Bool[np.ndarray, " member"]:
    if np.shape(values) != (n_members,) or np.asarray(values).dtype != bool:
        raise ValueError(
            f"{subject} must be True or False for each of the {n_members} members, got {values!r:.200}."
        )
    return np.asarray(values)


def cast_like(subject: str, before: Mapping[str, np.ndarray], now: Any) -> Named:
    """Return arrays in the dtypes of those before, whose names and shapes they must have."""
    expected = {name: array.shape for name, array in before.items()}
    is_named = isinstance(now, Mapping)
    shapes = {name: np.shape(array) for name, array in now.items()} if is_named else type(now).__name__
    if shapes != expected:
        raise ValueError(f"{subject} must keep names and shapes, {expected}, got {shapes}.")
    arrays = {name: np.asarray(array) for name, array in now.items()}
    for name, array in arrays.items():
        check_castable(f"{name!r} in {subject}", array.dtype, before[name].dtype)
    return {name: arrays[name].astype(array.dtype) for name, array in before.items()}


def where_active(active: Bool[np.ndarray, " member"], now: Named, before: Mapping[str, np.ndarray]) -> Named:
    return {name: np.where(aligned_mask(active, array), array, before[name]) for name, array in now.items()}
