"""The histories of many cells as one lazy dataset."""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from xarray import Dataset, Variable
from xarray.backends import BackendArray
from xarray.core import indexing

from popsim.store import open_arrays
from popsim.sweeps.layouts import CellLayout

MOST_OPEN = 64
PARENT = "parent"  # which is a place in a population in the history of a cell, and a member of a sweep here


class CellsArray(BackendArray):
    """An array of all cells, joined along the member axis, which reads the cells that are asked for.

    Rows that a cell does not have are NaN.

    **Arguments:**

    - `name`: the variable.
    - `histories`: the folder of the history of each cell; empty for a cell without one.
    - `axes`: the axes, rows first, members second.
    - `shape`, `dtype`: of all.
    - `first_members`: the number of the first member of each cell, and of all.
    - `rows`: for each cell the place of each row in its own history, -1 where it has none, as the number of
        one of `places`.
    - `places`: the places that differ.
    - `names`: for values that are places in the population of a cell: gives the numbers of the members there.
    """

    def __init__(
        self,
        name: str,
        histories: Sequence[str],
        *,
        axes: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: str,
        first_members: Int[np.ndarray, " cell+1"],
        rows: Int[np.ndarray, " cell"],
        places: Sequence[Int[np.ndarray, " row"]],
        names: Callable[[int], Int[np.ndarray, " place"]] | None = None,
    ):
        self.name, self.histories, self.axes = name, histories, axes
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.first_members, self.rows, self.places, self.names = first_members, rows, places, names

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        """Return the entries at `key`."""
        outer = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, outer, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the entries at an orthogonal index: an integer, a slice or an array for each axis."""
        rows, members = (
            np.atleast_1d(np.arange(length)[own]) for own, length in zip(key[:2], self.shape[:2], strict=True)
        )
        others = tuple(key[2:])
        trailing = [np.arange(length)[own] for own, length in zip(others, self.shape[2:], strict=True)]
        found = np.full(
            (rows.size, members.size, *(own.size for own in map(np.atleast_1d, trailing))), np.nan
        )
        found = found.astype(self.dtype)
        cells = np.searchsorted(self.first_members, members, side="right") - 1
        for cell in np.unique(cells).tolist():
            here = cells == cell
            place = self.places[int(self.rows[cell])][rows]
            there = place >= 0
            if not self.histories[cell] or not there.any():
                continue
            within = members[here] - self.first_members[cell]
            own = _read_cell(str(self.histories[cell]), self.name, place[there], within, others, self.axes)
            if self.names is not None:
                own = self.names(cell)[own]
            found[np.ix_(there, here)] = own.reshape(own.shape[0], own.shape[1], *found.shape[2:])
        lost = tuple(
            place for place, own in enumerate(key) if np.ndim(own) == 0 and not isinstance(own, slice)
        )
        return found.squeeze(axis=lost) if lost else found


def _read_cell(
    history: str,
    name: str,
    rows: Int[np.ndarray, " row"],
    members: Int[np.ndarray, " member"],
    others: tuple[Any, ...],
    axes: tuple[str, ...],
) -> np.ndarray:
    """Read rows and members of one variable of a cell, keeping both axes."""
    changed = os.stat(os.path.join(history, "zarr.json")).st_mtime_ns
    variable = _opened(history, changed)[name].variable
    index: dict[Any, Any] = dict(zip(axes, (_as_slice(rows), _as_slice(members), *others), strict=True))
    return variable.isel(index).values


def _as_slice(places: Int[np.ndarray, " place"]) -> Any:
    """Return places as a slice if they are without gaps, which is read faster."""
    if places.size and np.array_equal(places, np.arange(places[0], places[0] + places.size)):
        return slice(int(places[0]), int(places[0]) + places.size)
    return places


@functools.lru_cache(maxsize=MOST_OPEN)
def _opened(history: str, changed: int) -> Dataset:
    """Return the history of a cell as it was when its description last changed."""
    return open_arrays(history)


def joined_history(
    layouts: Sequence[CellLayout],
    layout: Int[np.ndarray, " cell"],
    histories: Sequence[str],
    first_members: Int[np.ndarray, " cell+1"],
    names: Callable[[int], Int[np.ndarray, " place"]],
) -> Dataset:
    """Return the variables that all cells have in the same shape, over the members of all cells.

    **Arguments:**

    - `layouts`: the different layouts of histories.
    - `layout`: for each cell, the number of its own; -1 for none.
    - `histories`: the folders of the histories.
    - `first_members`: see `CellsArray`.
    - `names`: gives for a cell the numbers of the members of its population, by their place there.
    """
    used = [layouts[number] for number in np.unique(layout[layout >= 0])]
    numbers = {number: place for place, number in enumerate(np.unique(layout[layout >= 0]))}
    of_cell = np.array([numbers.get(number, -1) for number in layout.tolist()], int)
    axes = sorted({axis for own in used for axis in own.rows})
    batches = {axis: sorted({batch for own in used for batch in own.rows.get(axis, ())}) for axis in axes}
    places = {axis: [_places(own.rows.get(axis, ()), batches[axis]) for own in used] for axis in axes}
    variables = {}
    left_out = []
    for name in sorted({name for own in used for name in own.arrays}):
        described = {own.arrays[name] for own in used if name in own.arrays}
        forms = {(axes, shape[2:], dtype) for axes, shape, dtype in described}
        own_axes, trailing, dtype = next(iter(forms))
        if own_axes[1:2] != ("member",) or not dtype.startswith(("float", "int")):
            continue
        if len(forms) > 1 or ("term" in own_axes and len({own.terms for own in used}) > 1):
            left_out.append(name)
            continue
        rows = own_axes[0]
        n_rows = len(batches[rows])
        array = CellsArray(
            name,
            histories,
            axes=own_axes,
            shape=(n_rows, int(first_members[-1]), *trailing),
            dtype=dtype if dtype.startswith("float") else "float64",  # whole numbers have no NaN
            first_members=first_members,
            rows=of_cell,
            places=[*places[rows], np.full(n_rows, -1)],  # the last one, at -1, of cells without a history
            names=names if name == PARENT else None,
        )
        variables[name] = Variable(own_axes, indexing.LazilyIndexedArray(array))
    labels = {axis: (axis, np.array(numbers, int)) for axis, numbers in batches.items()}
    terms = {own.terms for own in used}
    if len(terms) == 1 and any("term" in variable.dims for variable in variables.values()):
        labels["term"] = ("term", np.array(next(iter(terms))))
    return Dataset(variables, labels, {"left_out": left_out} if left_out else {})


def _places(own: Sequence[int], batches: Sequence[int]) -> Int[np.ndarray, " row"]:
    """Return the place in `own` of each batch, -1 where it is not."""
    place = {batch: number for number, batch in enumerate(own)}
    return np.array([place.get(batch, -1) for batch in batches], int)


def history_folder(cell: Path) -> str:
    """Return the folder of the history of a cell as text, which a worker of another process may open."""
    return str(cell.resolve() / "history.zarr")
