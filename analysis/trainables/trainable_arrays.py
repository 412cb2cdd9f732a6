"""Recorded trainables, and distances in their space.

A *history* here is a mapping from names to arrays (batch, member, ...): `run.history.dataset` or the result
of `popsim.training.open_history`, whose variables named "trainables." plus a path are used and read in
blocks; or a dictionary of arrays in memory, such as `arrays_by_name` makes of a model.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Float, PyTree

from popsim.store import leaf_names
from popsim.training.history.recording import PREFIXES, TRAINABLES

__all__ = [
    "arrays_by_name",
    "with_arrays",
    "recorded_arrays",
    "Distance",
    "distance_travelled",
    "distance_from_start",
]

BLOCK_BYTES = 64 * 2**20
"""The most of a history that this package holds in memory at once, in bytes of float64."""


class Block(NamedTuple):
    """A part of an array (batch, member, ...) in float64, and its place in the array."""

    rows: slice
    members: slice
    values: Float[np.ndarray, "batch member *rest"]


def blocks(array: Any, *, overlap: int = 0, n_bytes: int | None = None) -> Iterator[Block]:
    """Iterate over an array in blocks, reading one at a time; all rows of some members come first.

    A block shares `overlap` rows with the next one: 1 for steps from row to row. It has at most `n_bytes`.
    """
    n_bytes = BLOCK_BYTES if n_bytes is None else n_bytes
    n_rows, n_members, *shape = array.shape
    row_bytes = 8 * max(1, int(np.prod(shape)))
    least = overlap + 1
    members_at_once = min(max(1, n_bytes // (row_bytes * least)), max(1, n_members))
    rows_at_once = max(least, n_bytes // (row_bytes * members_at_once))
    for first in range(0, n_members, members_at_once):
        members = slice(first, min(first + members_at_once, n_members))
        for start in range(0, max(1, n_rows - overlap), rows_at_once - overlap):
            rows = slice(start, min(start + rows_at_once, n_rows))
            yield Block(rows, members, np.asarray(array[rows, members], np.float64))


def map_blocks(
    function: Any, array: Any, *, dtype: type = np.float64, overlap: int = 0
) -> Float[np.ndarray, "..."] | Any:
    """Combine what a function returns for each block, without the last `overlap` rows, as in `blocks`."""
    result = None
    for block in blocks(array, overlap=overlap):
        values = function(block)
        if result is None:
            result = np.empty((array.shape[0] - overlap, array.shape[1], *values.shape[2:]), dtype)
        result[block.rows.start : block.rows.stop - overlap, block.members] = values
    return result


PREFIX = PREFIXES[TRAINABLES]
Tree = TypeVar("Tree")


def arrays_by_name(tree: PyTree) -> dict[str, Any]:
    """Return the arrays of a model, an ensemble, or a history in memory, by their paths in it.

    `arrays_by_name(run.models(batch=-1))` can be passed as `initial` to other functions, and
    `arrays_by_name(history.model_trainables)` as a history. Constants are included; filter the model first
    with `equinox.filter(model, popsim.is_parameter(model))` for the parameters alone.
    """
    leaves = jax.tree.leaves(tree)
    return {name: leaves[index] for name, index in leaf_names(tree).items()}


def with_arrays(tree: Tree, arrays: Mapping[str, Any]) -> Tree:
    """Return a model or an ensemble with some of its arrays replaced, named as in `arrays_by_name`."""
    places = leaf_names(tree)
    if missing := sorted(arrays.keys() - places.keys()):
        raise ValueError(f"`arrays` must be of the model, which has {sorted(places)}, got {missing}.")
    leaves, structure = jax.tree.flatten(tree)
    for name, array in arrays.items():
        leaves[places[name]] = array
    return jax.tree.unflatten(structure, leaves)


def recorded_arrays(history: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the arrays of a history by their paths in the model, without loading lazy ones."""
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


def arrays_by_group(
    history: Mapping[Any, Any], groups: Mapping[str, Sequence[str]] | None
) -> dict[str, dict[str, Any]]:
    """Return the arrays of each group of a history by name; without `groups` each array is one."""
    arrays = recorded_arrays(history)
    if groups is None:
        return {name: {name: array} for name, array in arrays.items()}
    for group, names in groups.items():
        missing = sorted(set(names) - arrays.keys())
        if missing or not names or isinstance(names, str):
            raise ValueError(f"`groups[{group!r}]` must be names among {sorted(arrays)}, got {names!r}.")
    return {group: {name: arrays[name] for name in names} for group, names in groups.items()}


def initial_values(array: Any, name: str, initial: PyTree | None) -> np.ndarray:
    """Return the initial values (member, ...) of an array in float64: `initial`, or its row of batch -1."""
    if initial is None:
        _check_begins_before_training(array)
        return np.asarray(array[0], np.float64)
    by_name = initial if isinstance(initial, Mapping) else arrays_by_name(initial)
    if name not in by_name:
        raise ValueError(f"`initial` must hold {name!r}, got {sorted(by_name)}.")
    values = np.asarray(by_name[name], np.float64)
    if values.shape != tuple(array.shape[1:]):
        raise ValueError(f"`initial[{name!r}]` must have shape {array.shape[1:]}, got {values.shape}.")
    return values


def _check_begins_before_training(array: Any) -> None:
    batches = getattr(array, "coords", {}).get("trainables_batch")
    if batches is None or int(batches[0]) >= 0:
        known = "of a batch that it does not tell" if batches is None else f"after batch {int(batches[0])}"
        raise ValueError(
            "`initial` must be given, such as `run.models(batch=-1)`, or the ensemble before training, where "
            f"a history does not begin there: got None, and a first row {known}."
        )


@dataclasses.dataclass(frozen=True)
class Distance:
    """The Euclidean distance over all arrays of a group of parameters.

    - `absolute` [batch, member]: in the unit of the parameters, at each recorded batch.
    - `relative` [batch, member]: relative to the norm of the initial parameters; NaN where that is zero, such
        as for biases initialised to zero.
    """

    absolute: Float[np.ndarray, "batch member"]
    relative: Float[np.ndarray, "batch member"]


def distance_travelled(
    history: Mapping[Any, Any],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    initial: PyTree | None = None,
) -> dict[str, Distance]:
    """Return the length of the path of each member's parameters: sum_t |W(t+1) - W(t)|.

    The path is taken as straight between recorded batches: a history with fewer rows gives a shorter one.

    **Arguments:**

    - `history`: arrays (batch, member, ...) by name, such as `run.history.dataset`.
    - `groups`: the names of the arrays of each group, such as `{"recurrent": ["network.cell.weight_hh"]}`;
        None for one group per array.
    - `initial`: the ensemble before training, `run.models(batch=-1)`, or its arrays (member, ...) by name;
        None for the first row of a saved history that begins before training (batch -1).

    **Returns:** by group the distance up to each recorded batch.
    """

    def squares(array: Any, start: np.ndarray) -> np.ndarray:
        steps = np.zeros(array.shape[:2])
        steps[0] = _squares(np.asarray(array[0], np.float64) - start, n_leading=1)
        if array.shape[0] > 1:
            steps[1:] = map_blocks(lambda block: _squares(np.diff(block.values, axis=0)), array, overlap=1)
        return steps

    return _distances(history, groups, initial, squares, lambda steps: np.cumsum(steps, axis=0))


def distance_from_start(
    history: Mapping[Any, Any],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    initial: PyTree | None = None,
) -> dict[str, Distance]:
    """Return the distance of each member's parameters from their initial values: |W(t) - W(0)|.

    **Arguments:** as for `distance_travelled`.

    **Returns:** by group the distance at each recorded batch.
    """

    def squares(array: Any, start: np.ndarray) -> np.ndarray:
        def measure(block: Block) -> np.ndarray:
            return _squares(block.values - start[block.members])

        return map_blocks(measure, array)

    return _distances(history, groups, initial, squares, lambda lengths: lengths)


def _squares(values: np.ndarray, n_leading: int = 2) -> np.ndarray:
    return np.sum(values**2, axis=tuple(range(n_leading, values.ndim)))


def _distances(
    history: Mapping[Any, Any],
    groups: Mapping[str, Sequence[str]] | None,
    initial: PyTree | None,
    squares: Callable[[Any, np.ndarray], np.ndarray],
    accumulate: Callable[[np.ndarray], np.ndarray],
) -> dict[str, Distance]:
    """Return distances of groups, from the squared lengths of each of their arrays."""
    distances = {}
    for group, arrays in arrays_by_group(history, groups).items():
        starts = {name: initial_values(array, name, initial) for name, array in arrays.items()}
        lengths = np.sqrt(sum(squares(array, starts[name]) for name, array in arrays.items()))
        norm = np.sqrt(sum(_squares(start, n_leading=1) for start in starts.values()))
        absolute = accumulate(lengths)
        distances[group] = Distance(absolute, absolute / np.where(norm > 0, norm, np.nan))
    return distances
