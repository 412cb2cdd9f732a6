"""What was recorded of the trainables: arrays by name, and groups of them.

Everything here takes a *history*: a mapping from names to arrays (batch, member, ...). That is
`run.history.dataset` or what `popsim.training.open_history` gives, of which the variables called
"trainables." and a path are taken, and read in parts; or a dictionary of arrays in memory, which
`arrays_by_name` makes of a model.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from popsim.store import leaf_names
from popsim.training.history_arrays import PREFIXES
from popsim.training.history_rows import TRAINABLES

PREFIX = PREFIXES[TRAINABLES]
Tree = TypeVar("Tree")


def arrays_by_name(tree: PyTree) -> dict[str, Any]:
    """The arrays of a model, an ensemble, or a history in memory, by their paths in it.

    `arrays_by_name(run.models(batch=-1))` is what `initial` of other functions may be,
    `arrays_by_name(history.model_trainables)` a history. Constants are among them; of a model that is parted
    by `equinox.filter(model, popsim.is_parameter(model))` there are the parameters alone.
    """
    leaves = jax.tree.leaves(tree)
    return {name: leaves[index] for name, index in leaf_names(tree).items()}


def with_arrays(tree: Tree, arrays: Mapping[str, Any]) -> Tree:
    """A model or an ensemble with some of its arrays replaced, those that `arrays_by_name` calls so.

    **Raises:** `ValueError` if it has no array of a name.
    """
    places = leaf_names(tree)
    if missing := sorted(arrays.keys() - places.keys()):
        raise ValueError(f"`arrays` must be of the model, which has {sorted(places)}, got {missing}.")
    leaves, structure = jax.tree.flatten(tree)
    for name, array in arrays.items():
        leaves[places[name]] = array
    return jax.tree.unflatten(structure, leaves)


def recorded_arrays(history: Mapping[Any, Any]) -> dict[str, Any]:
    """The arrays of a history by their paths in the model, lazy ones still lazy.

    **Raises:** `ValueError` if there are none, or they are not of the same batches and members.
    """
    saved = {name.removeprefix(PREFIX): history[name] for name in history if name.startswith(PREFIX)}
    may_hold_more = hasattr(history, "data_vars")  # a dataset has losses, too
    arrays = saved if saved or may_hold_more else dict(history)
    if not arrays:
        raise ValueError(
            "`history` must hold trainables: train with `save_model_trainables`, or `popsim train` without "
            "`--keep none`; got none among "
            f"{sorted(map(str, history))}."
        )
    shapes = {name: array.shape for name, array in arrays.items()}
    leading = {shape[:2] for shape in shapes.values()}
    if len(leading) > 1 or len(next(iter(leading))) < 2:
        raise ValueError(f"`history` must be arrays (batch, member, ...) of the same both, got {shapes}.")
    return arrays


def grouped(
    history: Mapping[Any, Any], groups: Mapping[str, Sequence[str]] | None
) -> dict[str, dict[str, Any]]:
    """The arrays of each group of a history by name; every array is a group of its own if `groups` is None.

    **Raises:** `ValueError` if a group is empty, or names what was not recorded; as `recorded_arrays`.
    """
    arrays = recorded_arrays(history)
    if groups is None:
        return {name: {name: array} for name, array in arrays.items()}
    for group, names in groups.items():
        missing = sorted(set(names) - arrays.keys())
        if missing or not names or isinstance(names, str):
            raise ValueError(f"`groups[{group!r}]` must be names among {sorted(arrays)}, got {names!r}.")
    return {group: {name: arrays[name] for name in names} for group, names in groups.items()}


def initial_values(array: Any, name: str, initial: PyTree | None) -> np.ndarray:
    """What an array (batch, member, ...) began with, (member, ...) in float64: `initial`, or its first row.

    **Raises:** `ValueError` if `initial` lacks it, or has it in another shape, or is None although the array
    knows that its first row is after a training batch.
    """
    if initial is None:
        _check_begins_before_training(array)
        return np.asarray(array[0], np.float64)
    own = initial if isinstance(initial, Mapping) else arrays_by_name(initial)
    if name not in own:
        raise ValueError(f"`initial` must hold {name!r}, got {sorted(own)}.")
    values = np.asarray(own[name], np.float64)
    if values.shape != tuple(array.shape[1:]):
        raise ValueError(f"`initial[{name!r}]` must have shape {array.shape[1:]}, got {values.shape}.")
    return values


def _check_begins_before_training(array: Any) -> None:
    """The first row of an array that knows its batches has to be that before training, -1."""
    coordinates = getattr(array, "coords", {})
    if "trainables_batch" in coordinates and (first := int(coordinates["trainables_batch"][0])) >= 0:
        raise ValueError(
            "`initial` must be given, such as `run.models(batch=-1)`, where a history does not begin before "
            f"training: got None, and a first row after batch {first}."
        )
