"""A sweep opened for analysis."""

import collections
import dataclasses
import functools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from popsim._shared.checks import warn_caller
from popsim._shared.text_checks import count_text, suggestion
from popsim.ensemble import members_at
from popsim.experiments import Run
from popsim.experiments.joined_ensembles import join_ensembles
from popsim.store import CorruptDataError
from popsim.sweeps.cell_notes import (
    DAMAGED,
    FINISHED,
    FIRST_BATCHES,
    LOSSES,
    NOT_STARTED,
    STATES,
    STOPPED,
    CellNote,
    metric_columns,
    read_notes,
)
from popsim.sweeps.cells import DescribedSweep, read_plan

__all__ = ["OpenedSweep", "open_sweep"]


@dataclasses.dataclass(frozen=True, eq=False)
class OpenedSweep(DescribedSweep):
    """A sweep on disk, of which any number of cells may be trained.

    - `folder`: its folder.
    - `content`: what is in `sweep.json`.
    - `sweep`: the plan that this describes.
    - `notes`: what was known of each cell when it was opened.
    - `chosen`: the numbers of the members that `where` chose; None for all.
    """

    notes: Sequence[CellNote]
    chosen: Int[np.ndarray, " member"] | None = None

    def __repr__(self) -> str:
        size = f"{count_text(self.n_members, 'member')} of {count_text(self.sweep.n_cells, 'cell')}"
        return (
            f"OpenedSweep({str(self.folder.path)!r}: {self.sweep.experiment.name}, {size}, "
            f"{self.counts_text})"
        )

    @functools.cached_property
    def labels(self) -> dict[str, np.ndarray]:
        """For each member: its value on each axis, its seed, its cell, and its place in the cell."""
        rows: dict[str, list[Any]] = {name: [] for name in (*self.sweep.axes, "seed", "cell", "place")}
        for number in range(self.sweep.n_cells):
            of_cell = self.sweep.labels_of(number)
            places = range(len(of_cell["seed"]))
            for name, values in (of_cell | {"cell": [number] * len(places), "place": [*places]}).items():
                rows[name] += values
        return {name: _as_column(values)[self._members] for name, values in rows.items()}

    @property
    def _members(self) -> Int[np.ndarray, " member"]:
        return np.arange(self.sweep.n_members) if self.chosen is None else self.chosen

    @functools.cached_property
    def _cells(self) -> list[int]:
        """The cells of the chosen members."""
        return np.unique(self.labels["cell"]).tolist()

    @property
    def n_members(self) -> int:
        """The number of members that are chosen."""
        return self._members.size

    def where(self, **selection: Any) -> "OpenedSweep":
        """Return the sweep with the members of some values: `sweep.where(n_units=64, seed=[0, 1])`.

        **Arguments:**

        - `selection`: by axis, or "seed" or "cell", one value or a list of them.
        """
        keep = np.ones(self.n_members, bool)
        for name, choice in selection.items():
            if name not in self.labels or name == "place":
                names = [label for label in self.labels if label != "place"]
                raise ValueError(
                    f"`selection` must be of {', '.join(names)}, got {name!r}.{suggestion(name, names)}"
                )
            values = self.labels[name].tolist()
            choices = list(choice) if isinstance(choice, list | range | np.ndarray) else [choice]
            for value in choices:
                if not any(label == value for label in values):
                    raise ValueError(
                        f"`{name}` must be of {sorted(set(values), key=str)[:20]}, got {value!r}."
                    )
            keep &= np.array([label in choices for label in values], bool)
        return dataclasses.replace(self, chosen=self._members[keep])

    def state_of(self, number: int) -> str:
        """Return the state of a cell when the sweep was opened, of `popsim.sweeps.cell_notes.STATES`."""
        return self.notes[number].state

    def cells_in(self, *states: str) -> list[int]:
        """Return the numbers of the cells in some of the states."""
        return [number for number, note in enumerate(self.notes) if note.state in states]

    @property
    def unfinished_cells(self) -> list[int]:
        """The numbers of the cells that are not finished."""
        return self.cells_in(NOT_STARTED, STOPPED, DAMAGED)

    @property
    def is_finished(self) -> bool:
        """Whether all cells are finished."""
        return not self.unfinished_cells

    @property
    def counts(self) -> dict[str, int]:
        """How many cells are in each state."""
        return dict.fromkeys(STATES, 0) | collections.Counter(note.state for note in self.notes)

    @property
    def counts_text(self) -> str:
        """How many cells are in each state, such as "3 finished, 1 damaged"."""
        return ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)

    def problem_of(self, number: int) -> str:
        """Return what is wrong with a cell: its damage, or why its last attempt failed; empty if nothing."""
        note = self.notes[number]
        return note.problem or ("" if note.state == FINISHED else self.folder.failure_text(number))

    def run(self, number: int) -> Run:
        """Return the run of a cell.

        **Raises:** `ValueError` if there is no such cell, or it is not started; `MismatchError` if it is not
        what the plan of the sweep says, `CorruptDataError` if its `run.json` is missing or was changed.
        """
        cell = self.cell(number)
        if self.notes[number].state == NOT_STARTED:
            raise ValueError(f"cell {number} of {self.folder.path} must be started, and is not yet.")
        return Run(cell.read(), cell.experiment)

    def summary(self, **selection: Any) -> Any:
        """Return a `pandas.DataFrame` with a row for each member, whether or not its cell is trained.

        Its columns are the axes, the seed, the cell and the place in it; the state of the cell and the number
        of its batches; the batch from which on the member is frozen or stopped, its last losses in training
        and validation, and its metrics; NaN for what is not known, or did not happen. All names are
        identifiers, for `query`: "error (mm), noise on, mean" of the table of a run is the column
        "result_error_mm_noise_on_mean", and the attribute `attrs["titles"]` has the former by the latter.
        Damaged cells are named in a warning.

        **Arguments:**

        - `selection`: see `where`.
        """
        import pandas

        if selection:
            return self.where(**selection).summary()
        self._warn_of_damage()
        columns: dict[str, Any] = {}
        for name, values in self.labels.items():
            columns[name] = pandas.Series(list(values), dtype=object) if values.dtype == object else values
        cell = self.labels["cell"]
        columns["state"] = np.array([note.state for note in self.notes])[cell]
        columns["batches"] = np.array([note.n_batches for note in self.notes])[cell]
        for name in (*FIRST_BATCHES, *LOSSES):
            columns[name] = self._numbers([note.members.get(name) for note in self.notes])
        titles = metric_columns(sorted({title for note in self.notes for title in note.metrics}))
        for column, title in titles.items():
            columns[column] = self._numbers([note.metrics.get(title) for note in self.notes])
        if by_code := self.folder.cells_by_code(self.sweep.n_cells):
            warn_caller(f"cells of {self.folder.path} were trained by different code, see the column `code`.")
            codes = {number: code for code, numbers in by_code.items() for number in numbers}
            columns["code"] = [codes.get(number, "") for number in cell.tolist()]
        table = pandas.DataFrame(columns).rename_axis("member")
        table.attrs["titles"] = titles
        return table

    def _numbers(self, of_cells: Sequence[Sequence[float] | None]) -> np.ndarray:
        """Return the numbers of the chosen members from those of each cell; NaN where it has none."""
        numbers = np.full(self.sweep.n_members, np.nan)
        for number, of_cell in enumerate(of_cells):
            if of_cell is not None:
                numbers[self.sweep.members_of(number)] = of_cell
        return numbers[self._members]

    @functools.cached_property
    def history(self) -> Any:
        """The histories of all cells as one lazy `xarray.Dataset`, read when values are asked for.

        Its variables are those of `popsim.training.open_history`, with all members on one axis, and for each
        member the coordinates "setting.NAME" of each axis, "seed" and "cell". Rows that a cell does not have
        are NaN, and those that were added after the sweep was opened are left out. Variables whose shape
        differs between cells, such as weights of networks of different sizes, are left out, and named in the
        attribute "left_out": `sweep.where(n_units=64).history` has them. The "parent" of a selection is the
        number of a member of the sweep. Damaged cells are NaN, and named in a warning, now or when they are
        read.
        """
        from popsim.sweeps.history import join_histories

        self._warn_of_damage()
        dataset, members = join_histories(self, self.notes, self._cells), self._members
        if "member" in dataset.coords and not np.array_equal(dataset.member, members):
            dataset = dataset.sel(member=members)
        named = {f"setting.{name}" if name in self.sweep.axes else name: name for name in self.labels}
        labels: dict[str, Any] = {label: ("member", self.labels[name]) for label, name in named.items()}
        del labels["place"]
        return dataset.assign_coords(labels | {"member": members})

    def _warn_of_damage(self) -> None:
        """Name the damaged cells of the chosen members in a warning."""
        if damaged := [number for number in self._cells if self.notes[number].state == DAMAGED]:
            warn_caller(
                f"cells of {self.folder.path} are damaged, and NaN: {numbers_text(damaged)}; the first: "
                f"{self.problem_of(damaged[0])}"
            )

    @functools.cached_property
    def total_loss(self) -> Any:
        """The sum of the loss terms in each training batch, an `xarray.DataArray` (batch, member).

        NaN for batches that a cell has not reached; `history.loss.sum("term")` would give 0 there. It is read
        once: what was trained since is there when the sweep is opened again.
        """
        return self._total("loss", "batch")

    @functools.cached_property
    def total_validation_loss(self) -> Any:
        """The sum of the loss terms in the validation trials, as `total_loss`: (validation_batch, member)."""
        return self._total("validation_loss", "validation_batch")

    def _total(self, name: str, axis: str) -> Any:
        """Return the sum over terms of a loss; without any row where nothing is trained yet."""
        history = self.history
        if name in history:
            return history[name].sum("term", skipna=False)
        if name in history.attrs.get("left_out", ()):
            raise ValueError(
                f"`{name}` must have the same terms in all cells to be added up: {self.folder.path} has "
                "others in some, where(...) chooses cells that have the same."
            )
        from xarray import DataArray

        labels = {label: coord for label, coord in history.coords.items() if coord.dims == ("member",)}
        return DataArray(
            np.full((0, self.n_members), np.nan), {axis: np.zeros(0, int), **labels}, (axis, "member"), name
        )

    def ensemble(self, **selection: Any) -> Any:
        """Return the trained members of a selection as one ensemble, in the order of `summary`.

        **Arguments:**

        - `selection`: see `where`. Sizes must not differ between its members.

        **Raises:** `ValueError` if a cell of it has saved nothing, or the models differ in more than numbers;
        `CorruptDataError` if the last checkpoint of a finished cell is damaged; otherwise as `run` and
        `Run.ensemble`.
        """
        if selection:
            return self.where(**selection).ensemble()
        cell_texts, parts = [], []
        for number in self._cells:
            rows = self.labels["place"][self.labels["cell"] == number].astype(int)
            run, note = self.run(number), self.notes[number]
            parts.append(members_at(run.ensemble, rows))
            if note.state == FINISHED and run.n_batches_trained < note.n_batches:
                raise CorruptDataError(
                    f"the checkpoint of cell {number} after {note.n_batches} batches is damaged. "
                    f"To train it again, remove {self.folder.cell(number).path}, then: "
                    f"{self.folder.command('resume')}"
                )
            cell_texts.append(f"cell {number} ({self.sweep.cell(number)})")
        try:
            return join_ensembles(parts, cell_texts)
        except ValueError as error:
            axes = ", ".join(self.sweep.cell_axes)
            difference = str(error).partition("got ")[2].partition(":")[0]
            raise ValueError(
                f"`selection` must choose models of one structure, by values of {axes}: got {difference}."
            ) from None

    def examine(self, cells: Collection[int] | None = None) -> "OpenedSweep":
        """Return the sweep after a look at the files of cells: damaged are those that miss some.

        The notes alone do not tell. Cells that are being trained are left as they are. Of a cell it takes
        some milliseconds.

        **Arguments:**

        - `cells`: the numbers of the cells; None for all.
        """
        notes = list(self.notes)
        for number in self.cells_in(FINISHED, STOPPED):
            cell = self.cell(number)
            is_asked = cells is None or number in cells
            if is_asked and not self.folder.holder(number) and (damage := cell.visible_damage()):
                notes[number] = dataclasses.replace(notes[number], state=DAMAGED, problem=damage)
        return dataclasses.replace(self, notes=notes)


def open_sweep(path: str | Path) -> OpenedSweep:
    """Open the folder of a sweep, of which any number of cells may be trained.

    Nothing is written. What is known of the cells is read now: open the sweep again to see what was trained
    since.

    **Arguments:**

    - `path`: the folder.

    **Raises:** `ValueError` if there is no sweep, or its experiment is not registered; `MismatchError` if it
    has another format; `CorruptDataError` if its description was changed.
    """
    plan = read_plan(path)
    return OpenedSweep(plan.folder, plan.content, plan.sweep, read_notes(plan))


def numbers_text(numbers: Sequence[int]) -> str:
    """Return the numbers of some cells as text, of many the first."""
    return ", ".join(map(str, numbers[:20])) + (" ..." if len(numbers) > 20 else "")


def _as_column(values: Sequence[Any]) -> np.ndarray:
    """Return values of an axis as an array with one entry for each: numbers, text, or objects."""
    column = np.empty(len(values), object)
    column[:] = values
    kinds = {type(value) for value in values}
    if kinds <= {int} or kinds <= {int, float}:
        return column.astype(float if float in kinds else int)
    return column.astype(str) if kinds == {str} else column
