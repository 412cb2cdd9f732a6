"""The histories of many cells as one lazy dataset."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from xarray import Dataset, Variable
from xarray.backends import BackendArray
from xarray.core import indexing

from popsim._shared.checks import warn_caller
from popsim.store import open_arrays
from popsim.sweeps.cell_notes import DAMAGED, CellLayout, CellNote
from popsim.sweeps.cells import DescribedSweep
from popsim.sweeps.folder import SweepFolder

__all__ = ["PARENT", "join_histories"]

MOST_OPEN = 64
PARENT = "parent"  # which is a place in a population in the history of a cell, and a member of a sweep here


@dataclasses.dataclass(eq=False, repr=False)
class CellHistories:
    """The histories of cells, each opened after a check that it is of the run that the plan names.

    They can be sent to another process, which may have another working directory. `first_members` are the
    places of the first member of each cell among those of all, and the end; `layout` is the number of the
    layout of each cell, -1 for none; `damaged` are the cells that were named in a warning.
    """

    described: DescribedSweep
    cells: Int[np.ndarray, " cell"]
    first_members: Int[np.ndarray, " cell_and_end"]
    layout: Int[np.ndarray, " cell"]
    damaged: set[int] = dataclasses.field(default_factory=set)
    opened: dict[tuple[int, ...], Dataset] = dataclasses.field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"opened": {}}

    def open(self, place: int) -> Dataset:
        """Return the history of the cell at a place in `cells`."""
        cell = self.described.cell(int(self.cells[place]))
        history = cell.folder.history
        # With the times of change, so that a cell that is trained further, or anew, is opened again.
        key = (cell.number, *map(_time_of_change, (history / "zarr.json", cell.folder.description)))
        if key not in self.opened:
            run_id = cell.read().run_id
            if len(self.opened) >= MOST_OPEN:
                self.opened.pop(next(iter(self.opened)))
            self.opened[key] = open_arrays(history, run_id=run_id)
        return self.opened[key]


def _time_of_change(path: Path) -> int:
    """Return when a file was last changed; 0 if it is missing, which reading it reports."""
    with contextlib.suppress(OSError):
        return path.lstat().st_mtime_ns
    return 0


@dataclasses.dataclass(eq=False, repr=False)
class CellsArray(BackendArray):
    """An array of all cells, joined along the member axis, which reads the cells that are asked for.

    Rows that a cell does not have, or that cannot be read, are NaN; the latter with a warning. Of the axes
    rows are first, members second. `places` has for each layout the place of each row in the history of such
    a cell; -1 where it has none.
    """

    name: str
    histories: CellHistories
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    places: Sequence[Int[np.ndarray, " row"]]

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        """Return the entries at `key`."""
        outer = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, outer, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the entries at an orthogonal index: an integer, a slice or an array for each axis."""
        indices = [
            np.atleast_1d(np.arange(length)[index]) for index, length in zip(key, self.shape, strict=True)
        ]
        rows, members = indices[:2]
        entries = np.full([each.size for each in indices], np.nan, self.dtype)
        cells = np.searchsorted(self.histories.first_members, members, side="right") - 1
        for cell in np.unique(cells).tolist():
            layout = int(self.histories.layout[cell])
            place = self.places[layout][rows] if layout >= 0 else np.full(rows.shape, -1)
            is_stored, of_cell = place >= 0, cells == cell
            if not is_stored.any():
                continue
            within = members[of_cell] - self.histories.first_members[cell]
            try:
                values = self._read_cell(cell, [place[is_stored], within, *indices[2:]])
            except (ValueError, LookupError, TypeError, OSError) as error:
                if cell not in self.histories.damaged:
                    self.histories.damaged.add(cell)
                    warn_caller(f"a cell is damaged, and NaN where it cannot be read: {error}")
                continue
            entries[np.ix_(is_stored, of_cell)] = values
        lost = tuple(
            place for place, index in enumerate(key) if np.ndim(index) == 0 and not isinstance(index, slice)
        )
        return entries.squeeze(axis=lost)

    def _read_cell(self, cell: int, indices: Sequence[Int[np.ndarray, " _"]]) -> np.ndarray:
        """Read entries of a cell at some places along each axis."""
        variable = self.histories.open(cell)[self.name].variable
        index: dict[Any, Any] = dict(zip(self.axes, map(_as_slice, indices), strict=True))
        values = variable.isel(index).values
        if self.name != PARENT:
            return values
        return self.histories.described.sweep.members_at_places(int(self.histories.cells[cell]))[values]


def _as_slice(places: Int[np.ndarray, " place"]) -> Any:
    """Return places as a slice if they are without gaps, which is read faster."""
    if places.size and np.array_equal(places, np.arange(places[0], places[0] + places.size)):
        return slice(int(places[0]), int(places[0]) + places.size)
    return places


def join_histories(described: DescribedSweep, notes: Sequence[CellNote], cells: Sequence[int]) -> Dataset:
    """Return the variables that some cells of a sweep have in the same shape, over all of their members."""
    sweep = described.sweep
    texts = ["" if notes[number].state == DAMAGED else notes[number].layout for number in cells]
    parsed = {text: CellLayout.parse(text) for text in dict.fromkeys(texts) if text}
    parsed = {text: layout for text, layout in parsed.items() if any(layout.rows.values())}
    layouts, numbers = [*parsed.values()], {text: number for number, text in enumerate(parsed)}
    members = [sweep.members_of(number) for number in cells]
    # Without what was read of the cells: it is sent to every worker that reads some of it.
    plain = DescribedSweep(SweepFolder(described.folder.path.resolve()), described.content, sweep)
    histories = CellHistories(
        plain,
        np.array(cells),
        np.cumsum([0, *(own.stop - own.start for own in members)]),
        np.array([numbers.get(text, -1) for text in texts]),
    )
    axes = sorted({axis for layout in layouts for axis in layout.rows})
    batches = {axis: sorted({n for layout in layouts for n in layout.rows.get(axis, ())}) for axis in axes}
    variables, left_out = _joined_arrays(histories, layouts, batches)
    labels: dict[str, Any] = {axis: (axis, np.array(rows, int)) for axis, rows in batches.items()}
    if variables:
        labels["member"] = ("member", np.concatenate([np.r_[own] for own in members]))
    terms = {layout.terms for layout in layouts}
    if len(terms) == 1 and any("term" in variable.dims for variable in variables.values()):
        labels["term"] = ("term", np.array(terms.pop()))
    return Dataset(variables, labels, {"left_out": left_out} if left_out else {})


def _joined_arrays(
    histories: CellHistories, layouts: Sequence[CellLayout], batches: Mapping[str, Sequence[int]]
) -> tuple[dict[str, Variable], list[str]]:
    """Return the variables over all members, and the names of those whose shape differs between cells."""
    variables, left_out = {}, []
    for name in sorted({name for layout in layouts for name in layout.arrays}):
        described = [layout.arrays[name] for layout in layouts if name in layout.arrays]
        forms = {(axes, shape[2:], dtype) for axes, shape, dtype in described}
        axes, trailing, dtype = next(iter(forms))
        if axes[1:2] != ("member",) or not dtype.startswith(("float", "int")):
            continue
        if len(forms) > 1 or ("term" in axes and len({layout.terms for layout in layouts}) > 1):
            left_out.append(name)
            continue
        shape = (len(batches[axes[0]]), int(histories.first_members[-1]), *trailing)
        kept = np.dtype(dtype if dtype.startswith("float") else "float64")  # whole numbers have no NaN
        rows = [own.rows[axes[0]] if name in own.arrays else () for own in layouts]
        places = [_places(cell_rows, batches[axes[0]]) for cell_rows in rows]
        array = CellsArray(name, histories, axes, shape, kept, places)
        variables[name] = Variable(axes, indexing.LazilyIndexedArray(array))
    return variables, left_out


def _places(cell_batches: Sequence[int], batches: Sequence[int]) -> Int[np.ndarray, " row"]:
    """Return the place in `cell_batches` of each batch, -1 where it is not."""
    place = {batch: number for number, batch in enumerate(cell_batches)}
    return np.array([place.get(batch, -1) for batch in batches], int)
