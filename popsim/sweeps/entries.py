"""What the index of a sweep holds of a cell, read from its run or from the note beside it, `cell.json`."""

import contextlib
import dataclasses
import hashlib
import itertools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from popsim.experiments import AbstractExperiment
from popsim.experiments.run_info import RunInfo, logged_losses
from popsim.store import CorruptDataError, as_json_numbers, read_sealed_json, write_sealed_json
from popsim.store.files import missing_file
from popsim.store.run_parts import read_summary
from popsim.sweeps._summary_columns import RESULT
from popsim.sweeps.cells import SweepCell
from popsim.sweeps.folder import CellFolder
from popsim.sweeps.history_layouts import Batches, CellLayout

__all__ = ["STATES", "CellEntry", "inspect_cell", "read_cell", "read_note", "stamp_of", "write_entry"]

STATES = ("not started", "stopped", "damaged", "finished")
NOT_STARTED, STOPPED, DAMAGED, FINISHED = range(len(STATES))
PARTS = ("summary.json", "training.json", "run.json")  # one of which changes with a cell


@dataclasses.dataclass(frozen=True)
class CellEntry:
    """What the index holds of a cell, see `SweepIndex`."""

    state: int = NOT_STARTED
    n_batches: int = 0
    seconds: float = 0.0
    members: Mapping[str, list[float]] = dataclasses.field(default_factory=dict)
    layout: CellLayout | None = None
    problem: str = ""


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
    try:
        return inspect_cell(cell)
    except (ValueError, OSError) as error:
        return CellEntry(DAMAGED, problem=str(error))


def read_note(cell: SweepCell) -> CellEntry:
    """Read what the index holds of a cell from its `cell.json`.

    **Raises:** `ValueError` or `OSError` if it is missing, damaged, or not of this cell as it is now.
    """
    note = read_sealed_json(cell.folder.entry)
    expected = {**cell.part_of, **_digests_of(cell.folder)}
    if {name: note.get(name) for name in expected} != expected:
        raise CorruptDataError(f"{cell.folder.entry} must be of this cell, and of its run as it is now.")
    members = {
        name: [np.nan if n is None else float(n) for n in numbers]
        for name, numbers in note["members"].items()
    }
    return CellEntry(FINISHED, note["n_batches"], note["seconds"], members, CellLayout.parse(note["layout"]))


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
    members = {
        name: [float(batches.get(i, -1)) for i in range(cell.experiment.n_members)]
        for name, batches in (("frozen_from", info.frozen), ("stopped_from", info.stopped))
    }
    losses, seconds = _losses_of(info)
    members |= losses
    if info.is_finished:
        results = member_metrics(cell.experiment, read_summary(run))
        members |= {name: numbers.tolist() for name, numbers in results.items()}
    state = FINISHED if info.is_finished else STOPPED
    return CellEntry(state, info.n_saved, seconds, members, _layout_of(cell.folder, info))


def _losses_of(info: RunInfo) -> tuple[dict[str, list[float]], float]:
    """Return the last losses of the members, by name, and the seconds so far."""
    parts, last, training = info.parts, None, None
    # The log of a run that is not finished may be ahead of what is saved.
    for line in itertools.islice(parts.stream_log(), None if info.is_finished else parts.n_log_lines):
        last = line
        if info.stopped:  # their last losses are earlier ones
            now = logged_losses(line).training
            training = now if training is None else np.where(np.isfinite(now), now, training)
    if last is None:
        return {}, 0.0
    losses = logged_losses(last)
    training = losses.training.copy() if training is None else training
    training[list(info.frozen)] = np.nan
    return {"training_loss": training.tolist(), "validation_loss": losses.validation.tolist()}, losses.seconds


def member_metrics(experiment: AbstractExperiment, summary: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the metrics of the members in a summary, by the name of their column.

    **Raises:** `CorruptDataError` if it is not a summary of the experiment.
    """
    try:
        results = experiment.table(dict(summary))
        columns = results.columns if results.has_members else []
        named = {
            f"{RESULT}{column.title}{', ' if column.heading else ''}{column.heading}": results.of_members(
                column
            )
            for column in columns
        }
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDataError(f"a summary must be of {experiment.name}: {error!r:.200}") from error
    return {name: numbers for name, numbers in named.items() if numbers.shape == (experiment.n_members,)}


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
