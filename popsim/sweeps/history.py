"""The histories of many cells as one lazy dataset."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from xarray import Dataset, Variable
from xarray.backends import BackendArray
from xarray.core import indexing

from popsim._shared.checks import warn_caller
from popsim.store import open_arrays
from popsim.sweeps.cells import DescribedSweep
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.history_layouts import CellLayout

__all__ = ["CellHistories", "PARENT", "join_histories"]

MOST_OPEN = 64
PARENT = "parent"  # which is a place in a population in the history of a cell, and a member of a sweep here


class CellHistories:
    """Opens the histories of cells, each after a check that it is of the run that the plan names.

    It can be sent to another process, which may have another working directory.

    **Arguments:**

    - `described`: the sweep.
    - `cells`: the numbers of the cells.
    """

    def __init__(self, described: DescribedSweep, cells: Int[np.ndarray, " cell"]):
        folder = SweepFolder(described.folder.path.resolve())
        self.described = dataclasses.replace(described, folder=folder)
        self.cells = cells
        self._opened: dict[tuple[int, ...], Dataset] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_opened": {}}

    def __call__(self, place: int) -> Dataset:
        """Return the history of the cell at a place in `cells`.

        **Raises:** as `SweepCell.read` and `open_arrays`; `OSError` if there is none.
        """
        number = int(self.cells[place])
        cell = self.described.cell(number)
        history = cell.folder.history
        # With the times of change, so that a cell that is trained further, or anew, is opened again.
        key = (number, *map(_time_of_change, (history / "zarr.json", cell.folder.description)))
        if key not in self._opened:
            run_id = cell.read().run_id
            if len(self._opened) >= MOST_OPEN:
                self._opened.pop(next(iter(self._opened)))
            self._opened[key] = open_arrays(history, run_id=run_id)
        return self._opened[key]


def _time_of_change(path: Path) -> int:
    """Return when a file was last changed; 0 if it is missing, which reading it reports."""
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0


class CellsArray(BackendArray):
    """An array of all cells, joined along the member axis, which reads the cells that are asked for.

    Rows that a cell does not have, or that cannot be read, are NaN; the latter with a warning.

    **Arguments:**

    - `name`: the variable.
    - `open_cell`: opens the history of a cell, by its place among them.
    - `has_history`: which cells have a history.
    - `damaged`: the cells that were named in a warning; those named now are added.
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
        open_cell: CellHistories,
        *,
        has_history: Sequence[bool],
        damaged: set[int],
        axes: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: str,
        first_members: Int[np.ndarray, " cell_and_end"],
        rows: Int[np.ndarray, " cell"],
        places: Sequence[Int[np.ndarray, " _"]],
        names: Callable[[int], Int[np.ndarray, " place"]] | None = None,
    ):
        self.name, self.open_cell, self.axes = name, open_cell, axes
        self.has_history, self.damaged = has_history, damaged
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.first_members, self.rows, self.places, self.names = first_members, rows, places, names

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        """Return the entries at `key`."""
        outer = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, outer, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the entries at an orthogonal index: an integer, a slice or an array for each axis."""
        rows, members = (
            np.atleast_1d(np.arange(length)[index])
            for index, length in zip(key[:2], self.shape[:2], strict=True)
        )
        trailing_keys = tuple(key[2:])
        trailing = [
            np.arange(length)[index] for index, length in zip(trailing_keys, self.shape[2:], strict=True)
        ]
        entries = np.full(
            (rows.size, members.size, *(indices.size for indices in map(np.atleast_1d, trailing))), np.nan
        )
        entries = entries.astype(self.dtype)
        cells = np.searchsorted(self.first_members, members, side="right") - 1
        for cell in np.unique(cells).tolist():
            of_cell = cells == cell
            place = self.places[int(self.rows[cell])][rows]
            is_stored = place >= 0
            if not self.has_history[cell] or not is_stored.any():
                continue
            within = members[of_cell] - self.first_members[cell]
            shape = (int(is_stored.sum()), within.size, *entries.shape[2:])
            try:
                values = self._read_cell(cell, place[is_stored], within, trailing_keys).reshape(shape)
            except (ValueError, LookupError, TypeError, OSError) as error:
                if cell not in self.damaged:
                    self.damaged.add(cell)
                    warn_caller(f"a cell is damaged, and NaN where it cannot be read: {error}")
                continue
            entries[np.ix_(is_stored, of_cell)] = values
        lost = tuple(
            place for place, index in enumerate(key) if np.ndim(index) == 0 and not isinstance(index, slice)
        )
        return entries.squeeze(axis=lost) if lost else entries

    def _read_cell(
        self,
        cell: int,
        rows: Int[np.ndarray, " row"],
        members: Int[np.ndarray, " member"],
        trailing_keys: tuple[Any, ...],
    ) -> np.ndarray:
        """Read rows and members of a cell, keeping both axes."""
        variable = self.open_cell(cell)[self.name].variable
        index: dict[Any, Any] = dict(
            zip(self.axes, (_as_slice(rows), _as_slice(members), *trailing_keys), strict=True)
        )
        values = variable.isel(index).values
        return values if self.names is None else self.names(cell)[values]


def _as_slice(places: Int[np.ndarray, " place"]) -> Any:
    """Return places as a slice if they are without gaps, which is read faster."""
    if places.size and np.array_equal(places, np.arange(places[0], places[0] + places.size)):
        return slice(int(places[0]), int(places[0]) + places.size)
    return places


def join_histories(
    layouts: Sequence[CellLayout],
    layout: Int[np.ndarray, " cell"],
    open_cell: CellHistories,
    first_members: Int[np.ndarray, " cell_and_end"],
    names: Callable[[int], Int[np.ndarray, " place"]],
) -> Dataset:
    """Return the variables that all cells have in the same shape, over the members of all cells.

    **Arguments:**

    - `layouts`: the different layouts of histories.
    - `layout`: for each cell, the number of its own; -1 for none.
    - `open_cell`, `first_members`: see `CellsArray`.
    - `names`: gives for a cell the numbers of the members of its population, by their place there.
    """
    empty = [number for number, each in enumerate(layouts) if not any(each.rows.values())]
    layout = np.where(np.isin(layout, empty), -1, layout)  # of cells that have only begun
    damaged: set[int] = set()
    used = [layouts[number] for number in np.unique(layout[layout >= 0])]
    numbers = {number: place for place, number in enumerate(np.unique(layout[layout >= 0]))}
    of_cell = np.array([numbers.get(number, -1) for number in layout.tolist()], int)
    axes = sorted({axis for each in used for axis in each.rows})
    batches = {axis: sorted({batch for each in used for batch in each.rows.get(axis, ())}) for axis in axes}
    places = {axis: [_places(each.rows.get(axis, ()), batches[axis]) for each in used] for axis in axes}
    variables = {}
    left_out = []
    for name in sorted({name for each in used for name in each.arrays}):
        described = {each.arrays[name] for each in used if name in each.arrays}
        forms = {(axes, shape[2:], dtype) for axes, shape, dtype in described}
        array_axes, trailing, dtype = next(iter(forms))
        if array_axes[1:2] != ("member",) or not dtype.startswith(("float", "int")):
            continue
        if len(forms) > 1 or ("term" in array_axes and len({each.terms for each in used}) > 1):
            left_out.append(name)
            continue
        rows = array_axes[0]
        n_rows = len(batches[rows])
        array = CellsArray(
            name,
            open_cell,
            has_history=(layout >= 0).tolist(),
            damaged=damaged,
            axes=array_axes,
            shape=(n_rows, int(first_members[-1]), *trailing),
            dtype=dtype if dtype.startswith("float") else "float64",  # whole numbers have no NaN
            first_members=first_members,
            rows=of_cell,
            places=[*places[rows], np.full(n_rows, -1)],  # the last one, at -1, of cells without a history
            names=names if name == PARENT else None,
        )
        variables[name] = Variable(array_axes, indexing.LazilyIndexedArray(array))
    labels = {axis: (axis, np.array(numbers, int)) for axis, numbers in batches.items()}
    terms = {each.terms for each in used}
    if len(terms) == 1 and any("term" in variable.dims for variable in variables.values()):
        labels["term"] = ("term", np.array(next(iter(terms))))
    return Dataset(variables, labels, {"left_out": left_out} if left_out else {})


def _places(cell_batches: Sequence[int], batches: Sequence[int]) -> Int[np.ndarray, " row"]:
    """Return the place in `cell_batches` of each batch, -1 where it is not."""
    place = {batch: number for number, batch in enumerate(cell_batches)}
    return np.array([place.get(batch, -1) for batch in batches], int)
