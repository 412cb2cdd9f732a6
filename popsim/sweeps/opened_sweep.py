"""A sweep on disk, opened for analysis."""

import collections
import dataclasses
import functools
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from popsim._shared.checks import warn_caller
from popsim._shared.text_checks import as_path, count_text, suggestion
from popsim._shared.user_code import python_of
from popsim.ensemble import members_at
from popsim.experiments import EXPERIMENTS, Recording, Run
from popsim.experiments.joined_ensembles import join_ensembles
from popsim.experiments.registry import rebuild_experiment
from popsim.store import MismatchError, read_json, read_sealed_json
from popsim.sweeps.cells import DAMAGED, FINISHED, NOT_STARTED, STATES, STOPPED, CellNote, SweepCell
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.sweep import Division, Sweep

__all__ = ["OpenedSweep", "open_sweep"]


@dataclasses.dataclass(frozen=True, eq=False)
class OpenedSweep:
    """A sweep on disk, of which any number of cells may be trained.

    - `folder`: its folder.
    - `content`: what is in `sweep.json`.
    - `plan`: what this describes; None if the experiment is not registered, see `read_sweep`.
    - `notes`: what was known of each cell when it was opened, such as its state.
    - `chosen`: the numbers of the members that `where` chose; None for all.
    """

    folder: SweepFolder
    content: Mapping[str, Any]
    plan: Sweep | None
    notes: Sequence[CellNote] = ()
    chosen: Int[np.ndarray, " member"] | None = None

    def __repr__(self) -> str:
        size = f"{count_text(self.n_members, 'member')} of {count_text(self.n_cells, 'cell')}"
        experiment, path = self.content["experiment"], str(self.folder.path)
        return f"OpenedSweep({path!r}: {experiment}, {size}, {self.counts_text})"

    @property
    def sweep(self) -> Sweep:
        """The plan of the sweep."""
        assert self.plan is not None
        return self.plan

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return self.content["n_cells"]

    def cell(self, number: int) -> SweepCell:
        """Return a cell, whether or not it is started; raises `ValueError` if there is none."""
        if self.plan is not None:
            self.plan.check_number(number)
        part_of = {"sweep": self.content["sweep_id"], "cell": number}
        return SweepCell(number, self.folder.cell(number), part_of, self.plan)

    @functools.cached_property
    def labels(self) -> dict[str, np.ndarray]:
        """For each member: its value on each axis, its seed, its cell, and its place in the cell."""
        rows: dict[str, list[Any]] = {name: [] for name in (*self.sweep.axes, "seed", "cell", "place")}
        for number in range(self.n_cells):
            of_cell = self.sweep.labels_of(number)
            places = range(len(of_cell["seed"]))
            for name, values in (of_cell | {"cell": [number] * len(places), "place": [*places]}).items():
                rows[name] += values
        return {name: _as_column(values)[self._members] for name, values in rows.items()}

    @property
    def _members(self) -> Int[np.ndarray, " member"]:
        return np.arange(self.content["n_members"]) if self.chosen is None else self.chosen

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
        return dict.fromkeys(STATES, 0) | collections.Counter(note.present_state for note in self.notes)

    @property
    def counts_text(self) -> str:
        """How many cells are in each state, such as "3 finished, 1 damaged"."""
        return ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)

    @property
    def cells_by_code(self) -> dict[str, list[int]]:
        """The cells by the digest of the user's code that they began with; empty if that is one."""
        codes = {note.code for note in self.notes} - {""}
        if len(codes) == len({*map(python_of, codes)}):  # those of two versions of Python are not compared
            return {}
        return {code: [n for n, note in enumerate(self.notes) if note.code == code] for code in codes}

    def problem_of(self, number: int) -> str:
        """Return what is wrong with a cell: its damage, or why its last attempt failed; empty if nothing."""
        note, failure = self.notes[number], self.folder.failure(number)
        if note.problem or note.state == FINISHED or not failure.exists():
            return note.problem
        try:
            record = read_json(failure)
            return f"failed on {record['host']}: {record['error']}"
        except (ValueError, LookupError, TypeError):
            return "failed"

    def text_of(self, number: int) -> str:
        """Return the state of a cell, who trains it, what is saved of it, and what is wrong with it."""
        note, problem = self.notes[number], self.problem_of(number)
        holder = f" by {note.holder}" if note.holder else ""
        saved = f", {note.n_batches} of {note.n_planned} batches saved" if note.state == STOPPED else ""
        return f"{note.present_state}{holder}{saved}{f': {problem:.300}' if problem else ''}"

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
        """Return a `pandas.DataFrame` with a row for each member, or for those of a selection, see `where`.

        Its columns are the axes, the seed, the cell and the place in it; the state of the cell and the number
        of its batches; the batch from which on the member is frozen or stopped, its last losses in training
        and validation, and its metrics; NaN for what is not known, or did not happen. All names are
        identifiers, for `query`: "error (mm), noise on, mean" of the table of a run is the column
        "result_error_mm_noise_on_mean", and the attribute `attrs["titles"]` has the former by the latter.
        Damaged cells are named in a warning.
        """
        from popsim.sweeps.results import summary_table  # which loads pandas and xarray

        if selection:
            return self.where(**selection).summary()
        self._warn_of_damage()
        if with_code := bool(self.cells_by_code):
            warn_caller(f"cells of {self.folder.path} were trained by different code, see the column `code`.")
        finished = [number for number in self._cells if self.notes[number].state == FINISHED]
        metrics = {number: self.cell(number).metrics() for number in finished}
        return summary_table(self.labels, self.notes, metrics, with_code=with_code)

    def load(self, *names: str, where: Mapping[str, Any] | None = None) -> Any:
        """Return what the cells recorded over batches as one `xarray.Dataset`: `sweep.load("loss")`.

        Its variables are those of `popsim.training.open_history`, with all members on one axis, and for each
        member the coordinates "setting.NAME" of each axis, "seed" and "cell". They are read when values are
        asked for if dask is installed, and else now. Rows that a cell does not have yet are NaN, and so are
        damaged cells, which are named in a warning. The "parent" of a selection is the number of a member of
        the sweep.

        **Arguments:**

        - `names`: the variables, also as patterns such as "trainables.network.*", which must have one shape
            in all cells; without any, all that have. Others are named in the attribute "left_out".
        - `where`: the members by their settings, see the method `where`: `{"n_units": 64}`.
        """
        from popsim.sweeps.results import join_histories  # which loads xarray

        if where:
            return self.where(**where).load(*names)
        damage = self._warn_of_damage()
        cells = [number for number in self._cells if self.notes[number].state in (STOPPED, FINISHED)]
        here = dataclasses.replace(self, folder=SweepFolder(self.folder.path.resolve()))
        dataset = join_histories([*map(here.cell, cells)], names, damage)
        if "member" in dataset.coords and not np.array_equal(dataset.member, self._members):
            dataset = dataset.reindex(member=self._members)
        named = {f"setting.{name}" if name in self.sweep.axes else name: name for name in self.labels}
        labels: dict[str, Any] = {label: ("member", self.labels[name]) for label, name in named.items()}
        del labels["place"]
        return dataset.assign_coords(labels | {"member": self._members})

    def _warn_of_damage(self) -> str:
        """Name the damaged cells of the chosen members in a warning; return what is wrong with the first."""
        damaged = [number for number in self._cells if self.notes[number].state == DAMAGED]
        if not damaged:
            return ""
        damage = self.problem_of(damaged[0])
        warn_caller(
            f"cells of {self.folder.path} are damaged, and NaN: {numbers_text(damaged)}; the first: {damage}"
        )
        return damage

    @functools.cached_property
    def total_loss(self) -> Any:
        """The sum of the loss terms in each training batch, an `xarray.DataArray` (batch, member).

        NaN for batches that a cell has not reached; `load("loss").loss.sum("term")` would give 0 there.
        """
        return self.load("loss").loss.sum("term", skipna=False)

    @functools.cached_property
    def total_validation_loss(self) -> Any:
        """The sum of the loss terms in the validation trials, as `total_loss`: (validation_batch, member)."""
        return self.load("validation_loss").validation_loss.sum("term", skipna=False)

    def ensemble(self, **selection: Any) -> Any:
        """Return the trained members of a selection, see `where`, as one ensemble in the order of `summary`.

        **Raises:** `ValueError` if a cell of it has saved nothing, or the models differ in more than numbers,
        such as in sizes; otherwise as `run` and `Run.ensemble`.
        """
        if selection:
            return self.where(**selection).ensemble()
        cell_texts, parts = [], []
        for number in self._cells:
            rows = self.labels["place"][self.labels["cell"] == number].astype(int)
            parts.append(members_at(self.run(number).ensemble, rows))
            cell_texts.append(f"cell {number} ({self.sweep.cell(number)})")
        try:
            return join_ensembles(parts, cell_texts)
        except ValueError:
            axes = ", ".join(self.sweep.cell_axes)
            raise ValueError(
                f"`selection` must choose models of one structure, by values of {axes}: got other ones."
            ) from None

    def examine(self, cells: Collection[int] | None = None) -> "OpenedSweep":
        """Return the sweep after a look at the files of some cells, None for all: the damaged miss some.

        It takes some milliseconds a cell. Cells that are being trained are left as they are.
        """
        notes = list(self.notes)
        for number in self.cells_in(FINISHED, STOPPED):
            is_asked = cells is None or number in cells
            if is_asked and not self.folder.holder(number) and (damage := self.cell(number).visible_damage()):
                notes[number] = CellNote(DAMAGED, problem=damage)
        return dataclasses.replace(self, notes=notes)

    def with_notes(self) -> "OpenedSweep":
        """Return the sweep with what is known of its cells now."""
        cells = self.folder.cells
        # One listing: a look at each of many cells that have not begun would take a call of the system each.
        present = set(os.listdir(cells)) if cells.is_dir() else set()
        places = map(self.cell, range(self.n_cells))
        notes = [cell.look() if cell.folder.path.name in present else CellNote() for cell in places]
        return dataclasses.replace(self, notes=notes)


def open_sweep(path: str | Path) -> OpenedSweep:
    """Open the folder of a sweep, of which any number of cells may be trained.

    Nothing is written. What is known of the cells is read now: open the sweep again to see what was trained
    since.

    **Raises:** `ValueError` if there is no sweep, or its experiment is not registered; `MismatchError` if it
    has another format; `CorruptDataError` if its description was changed.
    """
    return read_sweep(path).with_notes()


def read_sweep(path: str | Path, *, is_known: bool = True) -> OpenedSweep:
    """Read the description of a sweep, and nothing of its cells; errors as `open_sweep`.

    `is_known` says whether the experiment must be registered; without it the sweep has no plan.
    """
    folder = SweepFolder(as_path("path", path))
    if not folder.description.exists():
        raise ValueError(f"`path` must be the folder of a sweep, got {path}: it has no sweep.json.")
    content = read_sealed_json(folder.description)
    if not is_known and content.get("experiment") not in EXPERIMENTS:
        return OpenedSweep(folder, content, None)
    experiment = rebuild_experiment(content, folder.description)
    plain = {name: content[name] for name in ("axes", "members_per_cell", "member_batch_size")}
    seeds, recording = range(*content["seeds"]), Recording(**content["recording"])
    try:
        sweep = Sweep(experiment, seeds=seeds, recording=recording, **plain)
        sweep = sweep.with_division(Division(**content["division"]))
        sweep.cell(0)
    except ValueError as error:
        raise MismatchError(
            f"the experiment {experiment.name} must train the cells that {folder.description} has: {error}"
        ) from None
    return OpenedSweep(folder, content, sweep)


def numbers_text(numbers: Sequence[int]) -> str:
    """Return the numbers of some cells as text, of many the first."""
    return ", ".join(map(str, numbers[:20])) + (" ..." if len(numbers) > 20 else "")


def _as_column(values: Sequence[Any]) -> np.ndarray:
    """Return values of an axis as an array with one entry for each: numbers, text, or objects."""
    if (kinds := {*map(type, values)}) <= {int, float} or kinds == {str}:
        return np.array(values)
    column = np.empty(len(values), object)
    column[:] = values
    return column
