"""What the index of a sweep holds of a cell, read from its run or from the note beside it, `cell.json`."""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from popsim.experiments.run_info import MOST_SECONDS, RunInfo, last_losses, logged_losses
from popsim.store import CorruptDataError, as_json_numbers, read_sealed_json, write_sealed_json
from popsim.store.arrays.inspection import damage_of_arrays
from popsim.store.files import missing_file
from popsim.store.identity import RUN_ID, check_run_id
from popsim.store.json_files import log_lines
from popsim.store.run_parts import RunParts, read_parts, read_summary
from popsim.sweeps._cell_results import check_losses, last_line, member_metrics
from popsim.sweeps._index_checks import (
    MISFITS,
    as_count,
    as_results,
    as_seconds,
    check_layout,
    check_range,
    check_results,
    largest_note,
    most_batches,
)
from popsim.sweeps.cells import SweepCell
from popsim.sweeps.folder import CellFolder
from popsim.sweeps.history_layouts import Batches, CellLayout

__all__ = [
    "STATES",
    "CellEntry",
    "inspect_cell",
    "read_cell",
    "read_note",
    "read_run",
    "stamp_of",
    "write_entry",
]

STATES = ("not started", "stopped", "damaged", "finished")
NOT_STARTED, STOPPED, DAMAGED, FINISHED = range(len(STATES))
PARTS = ("summary.json", "training.json", "run.json")  # one of which changes with a cell
LONGEST = 300  # characters of a message


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
        """Raise `ValueError` unless it fits a cell of `n_members` members and up to `n_batches` batches."""
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


def read_cell(cell: SweepCell) -> CellEntry:
    """Read what the index holds of a cell, from its `cell.json` or, if that does not fit, from its run."""
    with contextlib.suppress(ValueError, OSError):
        return read_note(cell)
    return read_run(cell)


def read_run(cell: SweepCell) -> CellEntry:
    """Read what the index holds of a cell from its run, whatever `cell.json` says."""
    try:
        return inspect_cell(cell)
    except (ValueError, OSError) as error:
        return CellEntry(DAMAGED, problem=str(error))


def read_note(cell: SweepCell) -> CellEntry:
    """Read what the index holds of a cell from its `cell.json`.

    **Raises:** `ValueError` or `OSError` if it is missing, damaged, or not of this cell as it is now.
    """
    note, sweep = cell.folder.entry, cell.of_sweep.sweep
    n_members = sweep.places_of(cell.number).size
    try:
        entry = _entry_of(read_sealed_json(note, most_bytes=largest_note(n_members)), cell)
        entry.check(n_members, most_batches(sweep))
    except MISFITS as error:
        if isinstance(error, CorruptDataError | OSError):
            raise
        raise CorruptDataError(f"{note} must be what popsim writes of this cell: {error!s:.200}") from None
    return entry


def _entry_of(note: dict[str, Any], cell: SweepCell) -> CellEntry:
    """Return the entry in a `cell.json`; raises unless it is of this cell and its present files."""
    expected = {**cell.part_of, **_digests_of(cell.folder)}
    if {name: note[name] for name in expected} != expected:
        raise ValueError("it is of another cell, or of another run, summary or history.")
    return CellEntry(
        FINISHED,
        as_count(note["n_batches"]),
        as_seconds(note["seconds"]),
        as_results(note["members"]),
        CellLayout.parse(note["layout"]),
    )


def write_entry(cell: SweepCell) -> None:
    """Write the `cell.json` of a finished cell; its run must be locked."""
    entry = inspect_cell(cell)
    if entry.state != FINISHED or entry.layout is None:
        return
    described = {
        **cell.part_of,
        **_digests_of(cell.folder),
        "n_batches": entry.n_batches,
        "seconds": entry.seconds,
        "members": {name: as_json_numbers(values) for name, values in entry.members.items()},
        "layout": entry.layout.text,
    }
    with contextlib.suppress(ValueError, OSError):
        if read_sealed_json(cell.folder.entry) == described:
            return
    write_sealed_json(cell.folder.entry, described)


def _digests_of(cell: CellFolder) -> dict[str, str]:
    """Return the digests of the files on which a `cell.json` depends."""
    digests = {}
    files = {"run": cell.description, "summary": cell.summary, "history": cell.history / "zarr.json"}
    for name, path in files.items():
        with path.open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def inspect_cell(cell: SweepCell) -> CellEntry:
    """Read what the index holds of a cell from its run.

    **Raises:** `CorruptDataError` or `MismatchError` naming what is damaged, or of another sweep.
    """
    run = cell.read()
    info = RunInfo(run)
    if run.content.get("finished") and not info.is_finished:
        raise missing_file(cell.folder.summary)
    if info.history_damage:
        raise CorruptDataError(info.history_damage)
    for _, error in damage_of_arrays(cell.folder.history, every_byte=False) if info.arrays else ():
        raise error
    members = {
        name: [float(batches.get(i, -1)) for i in range(cell.experiment.n_members)]
        for name, batches in (("frozen_from", info.frozen), ("stopped_from", info.stopped))
    }
    members |= _losses_of(cell, info, read_parts(run))
    if info.is_finished:
        if "training_loss" not in members:
            raise _lost_lines(cell.folder)
        results = member_metrics(cell.experiment, read_summary(run))
        members |= {name: numbers.tolist() for name, numbers in results.items()}
    return CellEntry(
        FINISHED if info.is_finished else STOPPED,
        info.n_saved,
        0.0 if info.losses is None else info.losses.seconds,
        members,
        _layout_of(cell.folder, info),
    )


def _losses_of(cell: SweepCell, info: RunInfo, parts: RunParts) -> dict[str, list[float]]:
    """Return the last losses of the members, by name; nothing if no log point is saved."""
    folder, losses = cell.folder, info.losses
    if not info.is_finished:  # the log may be ahead of what is saved
        parts.check_log()
        losses, _ = last_losses(folder.log, parts.n_log_lines)
    n_whole = sum(line.endswith(b"\n") for line in log_lines(folder.log)) if parts.n_log_lines else 0
    if n_whole < parts.n_log_lines or (losses is None and n_whole):
        raise _lost_lines(folder)
    if losses is None:
        return {}
    check_run_id(json.loads(last_line(folder.log)).get(RUN_ID), parts.run_id, folder.log)
    check_losses(folder, losses)
    training = losses.training.copy()
    if info.stopped:  # their last losses are earlier ones
        for line in parts.stream_log():
            now = logged_losses(line).training
            training = np.where(np.isfinite(now), now, training)
        training[list(info.frozen)] = np.nan
    return {"training_loss": training.tolist(), "validation_loss": losses.validation.tolist()}


def _lost_lines(folder: CellFolder) -> CorruptDataError:
    return CorruptDataError(f"{folder.log} must have a line for each log point; it is damaged.")


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
