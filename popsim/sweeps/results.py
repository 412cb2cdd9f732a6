"""What came out of a sweep: a row of a table for each member, and the histories of cells as one dataset."""

import dataclasses
import importlib.util
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from jaxtyping import Int

from popsim._shared.checks import warn_caller
from popsim._shared.text_checks import suggestion
from popsim.store import open_arrays
from popsim.sweeps.cells import FIRST_BATCHES, LOSSES, CellNote, SweepCell

__all__ = ["PARENT", "is_summary", "join_histories", "metric_columns", "summary_table"]

PARENT = "parent"  # which is a place in a population in the history of a cell, and a member of a sweep here
METRIC = "result_"  # before the names of metrics
_AFTER_AXES = ("seed", "cell", "place", "state", "batches", *FIRST_BATCHES, *LOSSES)


def summary_table(
    labels: Mapping[str, np.ndarray],
    notes: Sequence[CellNote],
    metrics: Mapping[int, Mapping[str, np.ndarray]],
    *,
    with_code: bool,
) -> Any:
    """Return the table of `OpenedSweep.summary`.

    `labels` are its first columns, and `metrics` those of finished cells by their titles.
    """
    import pandas

    cells, places = labels["cell"], [*zip(labels["cell"].tolist(), labels["place"].tolist(), strict=True)]

    def of_members(found: Mapping[int, Mapping[str, Any]], name: str) -> np.ndarray:
        return np.array(
            [found[cell][name][place] if name in found.get(cell, ()) else np.nan for cell, place in places]
        )

    members = {number: note.members for number, note in enumerate(notes)}
    titles = metric_columns(sorted({title for of_cell in metrics.values() for title in of_cell}))
    columns: dict[str, Any] = {
        **{
            name: pandas.Series(list(values), dtype=object) if values.dtype == object else values
            for name, values in labels.items()
        },
        "state": np.array([note.state for note in notes])[cells],
        "batches": np.array([note.n_batches for note in notes])[cells],
        **{name: of_members(members, name) for name in (*FIRST_BATCHES, *LOSSES)},
        **{name: of_members(metrics, title) for name, title in titles.items()},
        **({"code": np.array([note.code for note in notes])[cells]} if with_code else {}),
    }
    table = pandas.DataFrame(columns).rename_axis("member")
    table.attrs["titles"] = titles
    return table


def metric_columns(titles: Iterable[str]) -> dict[str, str]:
    """Return the titles of metrics by column: an identifier that `pandas.DataFrame.query` takes.

    "error (mm), noise on, mean" has the column "result_error_mm_noise_on_mean"; where two become the same,
    the second ends with "_2".
    """
    columns: dict[str, str] = {}
    for title in titles:
        words = title.replace("/", " per ").replace("%", " percent ")
        base = METRIC + re.sub(r"\W+", "_", words, flags=re.ASCII).strip("_")
        names = (base, *(f"{base}_{number}" for number in range(2, len(columns) + 2)))
        columns[next(name for name in names if name not in columns)] = title
    return columns


def is_summary(path: Path) -> bool:
    """Whether a file begins with the columns of `OpenedSweep.summary` and no others, as CSV."""
    try:
        with path.open("rb") as file:
            header = file.readline(2**20).decode().strip()
    except (OSError, ValueError):
        return False
    fixed = ",".join(_AFTER_AXES)
    return re.fullmatch(rf"member,(.*,)?{fixed}(,{METRIC}\w+)*(,code)?", header) is not None


@dataclasses.dataclass(frozen=True, eq=False)
class CellArray:
    """An array of the history of a cell, which is read when it is indexed, after a check of whose it is.

    What cannot be read is NaN, with a warning. It can be sent to another process.

    - `cell`, `name`: its place.
    - `shape`, `dtype`: of the rows that the cell had when the sweep was opened.
    - `members`: what the numbers in it stand for, if they are places.
    """

    cell: SweepCell
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    members: Int[np.ndarray, " place"] | None = None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        missing = np.broadcast_to(self.dtype.type(np.nan), self.shape)[index]
        try:
            values = open_history(self.cell)[self.name].variable[: self.shape[0]][index].values
            if values.shape != missing.shape:  # it was trained anew, and is not as far yet
                raise LookupError(f"{self.cell.folder.history} must have {self.shape[0]} rows of {self.name}")
        except (ValueError, LookupError, TypeError, OSError) as error:
            warn_of_damage(error)
            return np.array(missing)
        return (values if self.members is None else self.members[values]).astype(self.dtype)

    def load(self) -> Any:
        """Return the values, or if dask is installed an array of dask that reads them later."""
        if importlib.util.find_spec("dask") is None:
            return self[...]
        import dask.array

        one_chunk: Any = -1
        meta = np.empty((0,) * self.ndim, self.dtype)
        return dask.array.from_array(self, one_chunk, name=False, asarray=False, meta=meta)


def open_history(cell: SweepCell) -> xarray.Dataset:
    """Open the history of a cell, which must be of its run, and that of the sweep."""
    return open_arrays(cell.folder.history, run_id=cell.read().run_id)


def warn_of_damage(error: Exception) -> None:
    """Warn that a cell cannot be read."""
    warn_caller(f"a cell is damaged, and NaN where it cannot be read: {error}")


def join_histories(cells: Collection[SweepCell], names: Sequence[str], damage: str) -> xarray.Dataset:
    """Return the variables of some names, without any of all, over the members of cells that have begun.

    An error about a name says what is already known of `damage` in other cells, too.
    """
    histories: dict[SweepCell, xarray.Dataset] = {}
    for cell in cells:
        try:
            histories[cell] = open_history(cell)
        except (ValueError, OSError) as error:
            if (cell.folder.history / "zarr.json").exists():  # else nothing is saved yet
                warn_of_damage(error)
                damage = str(error)
    forms: dict[str, set[Any]] = {}
    for history in histories.values():
        for name, variable in history.data_vars.items():
            if variable.dims[1:2] == ("member",) and variable.dtype.kind in "fiu":
                terms = tuple(history.attrs["terms"]) if "term" in variable.dims else ()
                forms.setdefault(str(name), set()).add((variable.dims, variable.shape[2:], terms))
    chosen = _choose(forms, names, damage)
    parts = [_members_of(cell, history, chosen) for cell, history in histories.items()]
    if not parts:
        return xarray.Dataset()
    dataset = xarray.concat(
        parts, "member", data_vars="all", coords="minimal", join="outer", compat="override"
    )
    left_out = sorted(name for name in forms if not names and name not in chosen)
    return dataset.assign_attrs({"left_out": left_out} if left_out else {})


def _choose(forms: dict[str, set[Any]], names: Sequence[str], damage: str) -> list[str]:
    """Return the names that are asked for, or without any those of one form in all cells that are read."""
    if not names:
        return sorted(name for name in forms if len(forms[name]) == 1)
    chosen = []
    for pattern in names:
        found = [name for name in sorted(forms) if name == pattern or fnmatchcase(name, pattern)]
        if not found and "*" not in pattern:
            raise ValueError(
                f"`names` must be of what cells have recorded so far, got {pattern!r}."
                f"{suggestion(pattern, forms)} {damage}".rstrip()
            )
        if different := next((name for name in found if len(forms[name]) > 1), None):
            raise ValueError(
                f"`names` must be of arrays of one shape, with the same terms, in all cells, got "
                f"{different!r}: `where` chooses cells."
            )
        chosen += found
    return list(dict.fromkeys(chosen))


def _members_of(cell: SweepCell, history: xarray.Dataset, names: Sequence[str]) -> xarray.Dataset:
    """Return variables of the history of a cell, with the numbers of its members in the sweep."""
    sweep, variables, labels = cell.sweep, {}, {}
    assert sweep is not None
    for name in set(names).intersection(map(str, history.data_vars)):
        variable = history[name]
        dtype = variable.dtype if variable.dtype.kind == "f" else np.dtype(float)  # integers have no NaN
        places = sweep.members_at_places(cell.number) if name == PARENT else None
        array = CellArray(cell, name, variable.shape, dtype, places)
        variables[name] = (variable.dims, array.load())
        rows = variable.dims[0]
        labels[rows] = (rows, history[rows].values.astype(int))
        if "term" in variable.dims:
            labels["term"] = ("term", [*map(str, history.attrs["terms"])])
    labels["member"] = ("member", sweep.members_of(cell.number))
    return xarray.Dataset(variables, labels)
