"""A sweep opened for analysis."""

import dataclasses
import functools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from popsim._shared.checks import warn_caller
from popsim._shared.text_checks import as_path, count_text, suggestion
from popsim.ensemble import members_at
from popsim.experiments import Run
from popsim.experiments.joined_ensembles import join_ensembles
from popsim.store import CorruptDataError
from popsim.store.json_files import read_json
from popsim.sweeps._summary_columns import FIRST_BATCHES, LOSSES, metric_columns, metric_title
from popsim.sweeps.cells import DescribedSweep
from popsim.sweeps.entries import DAMAGED, FINISHED, NOT_STARTED, STATES
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.index import SweepIndex
from popsim.sweeps.sweep import Sweep

__all__ = ["OpenedSweep", "open_sweep"]


@dataclasses.dataclass(frozen=True)
class OpenedSweep:
    """A sweep on disk, of which any number of cells may be trained.

    - `described`: its folder and its plan.
    - `index`: the state and the results of the cells when it was opened.
    - `chosen`: the numbers of the members that `where` chose; None for all.
    """

    described: DescribedSweep
    index: SweepIndex
    chosen: Int[np.ndarray, " member"] | None = None

    def __repr__(self) -> str:
        size = f"{count_text(self.n_members, 'member')} of {count_text(self.sweep.n_cells, 'cell')}"
        states = ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)
        return f"OpenedSweep({str(self.folder.path)!r}: {self.sweep.experiment.name}, {size}, {states})"

    @property
    def folder(self) -> SweepFolder:
        """The folder."""
        return self.described.folder

    @property
    def sweep(self) -> Sweep:
        """The plan."""
        return self.described.sweep

    @property
    def sweep_id(self) -> str:
        """The identity of the sweep."""
        return self.described.sweep_id

    @functools.cached_property
    def labels(self) -> dict[str, np.ndarray]:
        """For each member: its value on each axis, its seed, its cell, and its place in the cell."""
        rows: dict[str, list[Any]] = {name: [] for name in (*self.sweep.axes, "seed", "cell", "place")}
        for number in range(self.sweep.n_cells):
            of_cell = self.sweep.labels_of(number)
            for name, values in of_cell.items():
                rows[name] += values
            n_members = len(of_cell["seed"])
            rows["cell"] += [number] * n_members
            rows["place"] += range(n_members)
        return {name: _as_column(values)[self._members] for name, values in rows.items()}

    @property
    def _members(self) -> Any:
        return slice(None) if self.chosen is None else self.chosen

    @property
    def n_members(self) -> int:
        """The number of members that are chosen."""
        return self.sweep.n_members if self.chosen is None else self.chosen.size

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
        return dataclasses.replace(self, chosen=np.arange(self.sweep.n_members)[self._members][keep])

    def state_of(self, number: int) -> str:
        """Return the state of a cell when the sweep was opened: one of `popsim.sweeps.entries.STATES`."""
        return STATES[self.index.state[number]]

    def cells_in(self, *states: str) -> list[int]:
        """Return the numbers of the cells in some of the states."""
        numbers = [STATES.index(state) for state in states]
        return np.flatnonzero(np.isin(self.index.state, numbers)).tolist()

    @property
    def unfinished_cells(self) -> list[int]:
        """The numbers of the cells that are not finished."""
        return np.flatnonzero(self.index.state != FINISHED).tolist()

    def problem_of(self, number: int) -> str:
        """Return what is wrong with a cell: its damage, or why its last attempt failed; empty if nothing."""
        if number in self.index.problems:
            return self.index.problems[number]
        failure = self.folder.failure(number)
        if self.index.state[number] == FINISHED or not failure.exists():
            return ""
        try:
            record = read_json(failure)
            return f"failed on {record['host']}: {record['error']}"
        except (ValueError, LookupError, TypeError):
            return "failed"

    def run(self, number: int) -> Run:
        """Return the run of a cell.

        **Raises:** `ValueError` if there is no such cell, or it is not started; `MismatchError` if it is not
        what the plan of the sweep says, `CorruptDataError` if its `run.json` is missing or was changed.
        """
        cell = self.described.cell(number)
        if self.index.state[number] == NOT_STARTED:
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
        columns["state"] = np.array(STATES)[self.index.state][cell]
        columns["batches"] = self.index.n_batches[cell]
        unknown = np.full(self.sweep.n_members, np.nan)
        for name in (*FIRST_BATCHES, *LOSSES):
            columns[name] = self.index.members.get(name, unknown)[self._members]
        for name in FIRST_BATCHES:  # in the index, -1 stands for never
            columns[name] = np.where(columns[name] >= 0, columns[name], np.nan)
        metrics = metric_columns(sorted(set(self.index.members) - set(columns)))
        for column, stored in metrics.items():
            columns[column] = self.index.members[stored][self._members]
        if by_code := self.folder.cells_by_code(self.sweep.n_cells):
            warn_caller(f"cells of {self.folder.path} were trained by different code, see the column `code`.")
            codes = {number: code for code, numbers in by_code.items() for number in numbers}
            columns["code"] = [codes.get(number, "") for number in cell.tolist()]
        table = pandas.DataFrame(columns).rename_axis("member")
        table.attrs["titles"] = {column: metric_title(stored) for column, stored in metrics.items()}
        return table

    @functools.cached_property
    def history(self) -> Any:
        """The histories of all cells as one lazy `xarray.Dataset`, read when values are asked for.

        Its variables are those of `popsim.training.open_history`, with all members on one axis, and for each
        member the coordinates "setting.NAME" of each axis, "seed" and "cell". Rows that a cell does not have
        are NaN. Variables whose shape differs between cells, such as weights of networks of different sizes,
        are left out, and named in the attribute "left_out": `sweep.where(n_units=64).history` has them. The
        "parent" of a selection is the number of a member of the sweep. Damaged cells are NaN, and named in a
        warning, now or when they are read.
        """
        from popsim.sweeps.history import CellHistories, join_histories

        firsts = self.sweep.first_members()
        cells = np.unique(self.labels["cell"])
        self._warn_of_damage()
        has_some = (self.index.layout >= 0) & (self.index.state != DAMAGED)
        layout = np.where(has_some, self.index.layout, -1)[cells]
        open_cell = CellHistories(self.described, cells)
        widths = np.diff(firsts)[cells]
        starts = np.append(0, np.cumsum(widths))
        rows = starts[np.searchsorted(cells, self.labels["cell"])] + self.labels["place"]
        named = {f"setting.{name}": values for name, values in self.labels.items() if name in self.sweep.axes}
        named |= {name: self.labels[name] for name in ("seed", "cell")}
        names = functools.partial(_members_at_places, self.sweep, cells)
        dataset = join_histories(self.index.layouts, layout, open_cell, starts, names)
        if not np.array_equal(rows, np.arange(starts[-1])):
            dataset = dataset.isel(member=rows) if "member" in dataset.dims else dataset
        members = np.arange(self.sweep.n_members)[self._members]
        labels: dict[str, Any] = {name: ("member", values) for name, values in named.items()}
        return dataset.assign_coords(labels | {"member": members})

    def _warn_of_damage(self) -> None:
        """Name the damaged cells of the chosen members in a warning."""
        chosen = set(np.unique(self.labels["cell"]).tolist())
        if damaged := [number for number in self.cells_in("damaged") if number in chosen]:
            names = ", ".join(map(str, damaged[:20])) + (" ..." if len(damaged) > 20 else "")
            warn_caller(
                f"cells of {self.folder.path} are damaged, and NaN: {names}; the first: "
                f"{self.problem_of(damaged[0])}"
            )

    @property
    def total_loss(self) -> Any:
        """The sum of the loss terms in each training batch, an `xarray.DataArray` (batch, member).

        NaN for batches that a cell has not reached; `history.loss.sum("term")` would give 0 there.
        """
        return self._total("loss", "batch")

    @property
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
        cells, cell_texts, parts = self.labels["cell"], [], []
        for cell in np.unique(cells).tolist():
            rows = self.labels["place"][cells == cell].astype(int)
            run = self.run(cell)
            parts.append(members_at(run.ensemble, rows))
            if self.state_of(cell) == "finished" and run.n_batches_trained < self.index.n_batches[cell]:
                raise CorruptDataError(
                    f"the checkpoint of cell {cell} after {self.index.n_batches[cell]} batches is damaged. "
                    f"To train it again, remove {self.folder.cell(cell).path}, then: "
                    f"{self.folder.command('resume')}"
                )
            cell_texts.append(f"cell {cell} ({self.sweep.cell(cell)})")
        try:
            return join_ensembles(parts, cell_texts)
        except ValueError as error:
            axes = ", ".join(self.sweep.cell_axes)
            difference = str(error).partition("got ")[2].partition(":")[0]
            raise ValueError(
                f"`selection` must choose models of one structure, by values of {axes}: got {difference}."
            ) from None

    @property
    def counts(self) -> dict[str, int]:
        """How many cells are in each state."""
        n_by_state = np.bincount(self.index.state, minlength=len(STATES))
        return dict(zip(STATES, n_by_state.tolist(), strict=True))

    @property
    def is_finished(self) -> bool:
        """Whether all cells are finished."""
        return not self.unfinished_cells

    def examine(self, cells: Collection[int] | None = None) -> "OpenedSweep":
        """Return the sweep after a look at the files of cells: damaged are those that miss some.

        The index alone does not tell. Cells that are being trained are left as they are. Of a cell it takes
        some milliseconds.

        **Arguments:**

        - `cells`: the numbers of the cells; None for all.
        """
        state, problems = self.index.state.copy(), dict(self.index.problems)
        for number in self.cells_in("finished", "stopped"):
            if cells is not None and number not in cells:
                continue
            cell = self.described.cell(number)
            if not cell.is_locked and (damage := cell.visible_damage()):
                state[number], problems[number] = DAMAGED, damage
        index = dataclasses.replace(self.index, state=state, problems=problems)
        return dataclasses.replace(self, index=index)


def open_sweep(path: str | Path) -> OpenedSweep:
    """Open the folder of a sweep, of which any number of cells may be trained.

    What changed since its index was written is read from the cells, and the index is rewritten if the
    folder can be written.

    **Arguments:**

    - `path`: the folder.

    **Raises:** `ValueError` if there is no sweep, or its experiment is not registered; `MismatchError` if it
    has another format; `CorruptDataError` if its description was changed.
    """
    described = DescribedSweep.read(SweepFolder(as_path("path", path)))
    index = SweepIndex.read(described)
    if index.refresh(described):
        index.write(described)
    return OpenedSweep(described, index)


def _members_at_places(sweep: Sweep, cells: Int[np.ndarray, " cell"], place: int) -> np.ndarray:
    """Return `Sweep.members_at_places` of one of some cells; as a function that can be sent to workers."""
    return sweep.members_at_places(int(cells[place]))


def _as_column(values: Sequence[Any]) -> np.ndarray:
    """Return values of an axis as an array with one entry for each: numbers, text, or objects."""
    column = np.empty(len(values), object)
    column[:] = values
    kinds = {type(value) for value in values}
    if kinds <= {int} or kinds <= {int, float}:
        return column.astype(float if float in kinds else int)
    return column.astype(str) if kinds == {str} else column
