"""The index of a sweep: the state and the results of all cells, in one file that is made from them."""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from popsim._checks import WholeNumber
from popsim.experiments import read_run_info
from popsim.experiments.info import LONGEST as MOST_SECONDS
from popsim.experiments.info import RunInfo, last_losses, logged_losses
from popsim.store import (
    CorruptDataError,
    SaveError,
    as_json_numbers,
    read_sealed_json,
    write_sealed_json,
)
from popsim.store.array_file import describe, open_array_file, read_array, write_array_file
from popsim.store.files import check_plain_file, missing_file, read_plain
from popsim.store.identity import RUN_ID, FolderHeldError, check_run_id, lock_folder
from popsim.store.json_files import log_lines, parse_json
from popsim.store.run_parts import read_parts, read_summary, stream_log
from popsim.sweeps._derived import (
    MISFITS,
    as_count,
    as_results,
    as_seconds,
    check_forms,
    check_layout,
    check_range,
    check_results,
    largest_note,
    most_batches,
)
from popsim.sweeps._results import check_losses, figures_of_merit, last_line
from popsim.sweeps.cells import check_cell
from popsim.sweeps.folder import CellFolder, SweepFolder
from popsim.sweeps.layouts import Batches, CellLayout
from popsim.sweeps.sweep import Sweep

__all__ = ["SweepIndex", "STATES"]

INDEX_FORMAT = 1
KIND = "an index"
STATES = ("not started", "stopped", "damaged", "finished")
NOT_STARTED, STOPPED, DAMAGED, FINISHED = range(len(STATES))
PARTS = ("summary.json", "training.json", "run.json")  # one of which changes with a cell
LONGEST = 300  # characters of a message


@dataclasses.dataclass
class SweepIndex:
    """The state and the results of the cells of a sweep, as columns.

    - `state`: for each cell, the number of its state in `STATES`.
    - `stamp`: for each cell, which of `PARTS` exist, as bits, and a number that changes with them.
    - `n_batches`: for each cell, the number of batches that are saved.
    - `seconds`: for each cell, how long it trained.
    - `layout`: for each cell, the number of its history in `layouts`; -1 for none.
    - `members`: for each member of the sweep, by name, its last losses and its figures of merit; NaN for
        those that are not known.
    - `layouts`: the different layouts of histories.
    - `problems`: what is wrong with damaged cells.
    - `n_members`: the number of members of the sweep.
    - `compared`: the cells whose results were compared with their runs, see `popsim.sweeps._comparison`.
    """

    state: Int[np.ndarray, " cell"]
    stamp: Int[np.ndarray, "cell 2"]
    n_batches: Int[np.ndarray, " cell"]
    seconds: Float[np.ndarray, " cell"]
    layout: Int[np.ndarray, " cell"]
    members: dict[str, Float[np.ndarray, " member"]]
    layouts: list[CellLayout]
    problems: dict[int, str]
    n_members: int
    compared: set[int] = dataclasses.field(default_factory=set, repr=False, kw_only=True)

    @classmethod
    def empty(cls, sweep: Sweep) -> "SweepIndex":
        """Return the index of a sweep of which nothing is trained."""
        n = sweep.n_cells
        zeros = np.zeros(n, np.int64)
        stamp, layout = np.zeros((n, 2), np.int64), np.full(n, -1)
        return cls(zeros, stamp, zeros.copy(), np.zeros(n), layout, {}, [], {}, sweep.n_members)

    @classmethod
    def read(cls, folder: SweepFolder, sweep: Sweep, sweep_id: str) -> "SweepIndex":
        """Read the index of a sweep; one that is missing, damaged, of another sweep or cannot be is empty."""
        empty = cls.empty(sweep)
        with contextlib.suppress(*MISFITS):
            check_plain_file(folder.index)
            with open_array_file(folder.index, INDEX_FORMAT, KIND) as (file, content):
                details, forms = content["details"], content["arrays"]
                if details["sweep_id"] != sweep_id:
                    return empty
                check_forms(forms, {name: getattr(empty, name) for name in _COLUMNS}, sweep.n_members)
                arrays = {name: read_array(folder.index, file, name, form) for name, form in forms.items()}
            index = cls(
                *(arrays.pop(name) for name in _COLUMNS),
                members=arrays,
                layouts=[CellLayout.parse(text) for text in details["layouts"]],
                problems={int(number): text for number, text in details["problems"].items()},
                n_members=sweep.n_members,
            )
            index._check(sweep)
            return index
        return empty

    def _check(self, sweep: Sweep) -> None:
        """Raise `ValueError` if the values cannot be those of a sweep."""
        n_batches, widths = most_batches(sweep), np.diff(sweep.first_members())
        check_range("states", self.state, NOT_STARTED, FINISHED)
        check_range("batches", self.n_batches, 0, n_batches)
        check_range("seconds", self.seconds, 0, MOST_SECONDS)
        check_range("layouts", self.layout, -1, len(self.layouts) - 1)
        has_begun = np.repeat(np.isin(self.state, (STOPPED, FINISHED)), widths)
        check_results({name: column[has_begun] for name, column in self.members.items()}, n_batches)
        for layout, width in {*zip(self.layout.tolist(), widths.tolist(), strict=True)}:
            if layout >= 0:
                check_layout(self.layouts[layout], width, n_batches)
        for number, text in self.problems.items():
            if self.state[number] != DAMAGED or not isinstance(text, str) or len(text) > LONGEST:
                raise ValueError(f"problems must be text by damaged cell, got {text!r:.100} of {number}.")

    def write(self, folder: SweepFolder, sweep_id: str) -> None:
        """Write the index, unless another process does so or the folder cannot be written."""
        arrays = {name: getattr(self, name) for name in _COLUMNS} | self.members
        details = {
            "sweep_id": sweep_id,
            "layouts": [layout.text for layout in self.layouts],
            "problems": {str(number): text for number, text in self.problems.items()},
        }
        content = {"format": INDEX_FORMAT, "kind": KIND, "details": details}
        with contextlib.suppress(FolderHeldError, ValueError, SaveError), lock_folder(folder.path):
            forms = {name: describe(array) for name, array in arrays.items()}
            write_array_file(folder.index, arrays, forms, content)

    def refresh(self, folder: SweepFolder, sweep: Sweep, sweep_id: str) -> int:
        """Look at every cell, read those that changed, and return their number."""
        present = set(os.listdir(folder.cells)) if folder.cells.is_dir() else set()
        numbers = {layout: number for number, layout in enumerate(self.layouts)}
        firsts = sweep.first_members()
        n_changed = 0
        for number, old_stamp in enumerate(map(tuple, self.stamp.tolist())):
            cell = folder.cell(number)
            stamp = stamp_of(str(cell.path)) if cell.path.name in present else (0, 0)
            if stamp == old_stamp and _is_state(self.state[number], stamp[0]):
                continue
            n_changed += 1
            self.stamp[number] = stamp
            entry = read_cell(folder, sweep, sweep_id, number) if stamp[0] else CellEntry()
            self._put(number, entry, slice(firsts[number], firsts[number + 1]), numbers)
        return n_changed

    def read_again(self, folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> None:
        """Enter what the run of a cell says, whatever its `cell.json` does."""
        firsts = sweep.first_members()
        numbers = {layout: place for place, layout in enumerate(self.layouts)}
        entry = read_run(folder, sweep, sweep_id, number)
        self._put(number, entry, slice(firsts[number], firsts[number + 1]), numbers)

    def _put(self, number: int, entry: "CellEntry", members: slice, numbers: dict[CellLayout, int]) -> None:
        """Enter what is known of a cell."""
        self.state[number], self.n_batches[number] = entry.state, entry.n_batches
        self.seconds[number] = entry.seconds
        self.problems.pop(number, None)
        if entry.problem:
            self.problems[number] = entry.problem[:LONGEST]
        if entry.layout is None:
            self.layout[number] = -1
        else:
            self.layout[number] = numbers.setdefault(entry.layout, len(numbers))
            self.layouts[:] = list(numbers)
        n = members.stop - members.start
        for name in {*self.members, *entry.members}:
            column = self.members.setdefault(name, np.full(self.n_members, np.nan))
            values = np.asarray(entry.members.get(name, []), float)
            column[members] = values if values.shape == (n,) else np.nan


_COLUMNS = ("state", "stamp", "n_batches", "seconds", "layout")


@dataclasses.dataclass(frozen=True)
class CellEntry:
    """What the index holds of a cell, see `SweepIndex`."""

    state: int = NOT_STARTED
    n_batches: int = 0
    seconds: float = 0.0
    members: Mapping[str, list[float]] = dataclasses.field(default_factory=dict)
    layout: CellLayout | None = None
    problem: str = ""

    def check(self, n_members: int, n_batches: int) -> None:
        """Raise `ValueError` if it cannot be of a cell of so many members and at most so many batches."""
        check_range("batches", np.array([self.n_batches]), 0, n_batches)
        check_range("seconds", np.array([self.seconds]), 0, MOST_SECONDS)
        if any(len(numbers) != n_members for numbers in self.members.values()):
            raise ValueError(f"results must be of {n_members} members.")
        check_results({name: np.array(numbers) for name, numbers in self.members.items()}, n_batches)
        if self.layout is not None:
            check_layout(self.layout, n_members, n_batches)


def stamp_of(folder: str) -> tuple[int, int]:
    """Return which parts of a cell exist, and a number that changes when one is written or put there."""
    exist, changed = 0, 0
    for bit, part in enumerate(PARTS):
        with contextlib.suppress(OSError):
            file = os.lstat(f"{folder}/{part}")
            exist |= 1 << bit
            changed = (1_000_003 * changed + file.st_mtime_ns + file.st_size) % 2**63
    return exist, changed


def _is_state(state: WholeNumber, parts: int) -> bool:
    """Whether a cell of which some parts exist can be in a state; a damaged one is looked at each time."""
    has_summary = bool(parts & 1)
    return {NOT_STARTED: not parts, STOPPED: not has_summary, FINISHED: has_summary}.get(int(state), False)


def read_cell(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> CellEntry:
    """Read what the index holds of a cell, from its `cell.json` or, if that does not fit, from its run."""
    with contextlib.suppress(ValueError, OSError):
        return read_note(folder, sweep, sweep_id, number)
    return read_run(folder, sweep, sweep_id, number)


def read_run(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> CellEntry:
    """Read what the index holds of a cell from its run, whatever `cell.json` says."""
    try:
        return look_at_cell(folder, sweep, sweep_id, number)
    except (ValueError, OSError) as error:
        return CellEntry(DAMAGED, problem=str(error))


def read_note(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> CellEntry:
    """Read what the index holds of a cell from its `cell.json`.

    **Raises:** `ValueError` or `OSError` if it is missing, damaged, or not of this cell as it is now.
    """
    note, n_members = folder.entry(number), sweep.places_of(number).size
    try:
        if os.path.lexists(note) and note.lstat().st_size > largest_note(n_members):
            raise ValueError("it is too large.")
        entry = _entry_of(read_sealed_json(note), sweep_id, number, folder.cell(number))
        entry.check(n_members, most_batches(sweep))
    except MISFITS as error:
        if isinstance(error, CorruptDataError | OSError):
            raise
        raise CorruptDataError(f"{note} must be what popsim writes of this cell: {error!s:.200}") from None
    return entry


def _entry_of(note: dict[str, Any], sweep_id: str, number: int, cell: CellFolder) -> CellEntry:
    """Return the entry in a `cell.json`; raises unless it is of this cell and its present files."""
    expected = {"sweep": sweep_id, "cell": number, **_digests_of(cell)}
    if {name: note[name] for name in expected} != expected:
        raise ValueError("it is of another cell, or of another run, summary or history.")
    return CellEntry(
        FINISHED,
        as_count(note["n_batches"]),
        as_seconds(note["seconds"]),
        as_results(note["members"]),
        CellLayout.parse(note["layout"]),
    )


def write_entry(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> None:
    """Write the `cell.json` of a finished cell; its run must be locked."""
    cell = folder.cell(number)
    entry = look_at_cell(folder, sweep, sweep_id, number)
    if entry.state != FINISHED or entry.layout is None:
        return
    described = {
        "sweep": sweep_id,
        "cell": number,
        **_digests_of(cell),
        "n_batches": entry.n_batches,
        "seconds": entry.seconds,
        "members": {name: as_json_numbers(values) for name, values in entry.members.items()},
        "layout": entry.layout.text,
    }
    with contextlib.suppress(ValueError, OSError):
        if read_sealed_json(folder.entry(number)) == described:
            return
    write_sealed_json(folder.entry(number), described)


def _digests_of(cell: CellFolder) -> dict[str, str]:
    """Return the digests of the files on which a `cell.json` depends."""
    digests = {}
    files = {"run": cell.description, "summary": cell.summary, "history": cell.history / "zarr.json"}
    for name, path in files.items():
        with read_plain(path) as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def look_at_cell(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> CellEntry:
    """Read what the index holds of a cell from its run.

    **Raises:** `CorruptDataError` or `MismatchError` naming what is damaged, or of another sweep.
    """
    check_cell(folder, sweep, sweep_id, number)
    cell, experiment = folder.cell(number), sweep.cell(number).experiment
    info = read_run_info(cell.path)
    if info.description.get("finished") and not info.is_finished:
        raise missing_file(cell.summary)
    if damage := next(filter(None, (info.history_damage, *(array.damage for array in info.arrays))), ""):
        raise CorruptDataError(damage)
    members = {
        name: [float(batches.get(i, -1)) for i in range(experiment.n_members)]
        for name, batches in (("frozen_from", info.frozen), ("stopped_from", info.stopped))
    }
    losses, parts = info.losses, read_parts(cell)
    if not info.is_finished:  # the log may be ahead of what is saved
        for _ in stream_log(cell, parts):  # whose lines must be of this run
            pass
        losses, _ = last_losses(cell.log, parts.n_log_lines)
    n_whole = sum(line.endswith(b"\n") for line in log_lines(cell.log)) if parts.n_log_lines else 0
    if n_whole < parts.n_log_lines or (losses is None and n_whole):
        raise CorruptDataError(f"{cell.log} must have a line for each logging point; it is damaged.")
    if losses is not None:
        check_run_id(parse_json(last_line(cell.log)).get(RUN_ID), parts.run_id, cell.log)
        check_losses(cell, losses)
        training = losses.training.copy()
        if info.stopped:  # their last losses are earlier ones
            for line in stream_log(cell, parts):
                now = logged_losses(line).training
                training = np.where(np.isfinite(now), now, training)
            training[list(info.frozen)] = np.nan
        members["training_loss"] = training.tolist()
        members["validation_loss"] = losses.validation.tolist()
    if info.is_finished:
        if losses is None:
            raise CorruptDataError(f"{cell.log} must have a line for each logging point; it is damaged.")
        results = figures_of_merit(experiment, read_summary(cell, parts.run_id))
        members |= {name: numbers.tolist() for name, numbers in results.items()}
    return CellEntry(
        FINISHED if info.is_finished else STOPPED,
        info.n_saved,
        0.0 if info.losses is None else info.losses.seconds,
        members,
        _layout_of(cell, info),
    )


def _layout_of(cell: CellFolder, info: RunInfo) -> CellLayout | None:
    """Return the layout of the history of a run, if it has one."""
    if not info.arrays:
        return None
    import popsim.training

    dataset = popsim.training.open_history(cell.path)
    rows = {
        str(name): Batches.of(dataset[name].values.tolist())
        for name in dataset.coords
        if dataset[name].dims == (name,) and (name == "batch" or str(name).endswith("_batch"))
    }
    arrays = {
        array.name: (array.axes, array.shape, array.dtype)
        for array in info.arrays
        if array.axes and array.axes[0] in rows and array.axes != (array.name,)
    }
    return CellLayout(rows, arrays, tuple(map(str, dataset.attrs.get("terms", ()))))
