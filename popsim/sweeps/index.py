"""The index of a sweep: the state and the results of all cells, in one file that is made from them."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from popsim.experiments import Run, read_run_info
from popsim.experiments.info import RunInfo, last_losses, logged_losses
from popsim.store import (
    CorruptDataError,
    MismatchError,
    SaveError,
    as_json_numbers,
    read_sealed_json,
    write_sealed_json,
)
from popsim.store._array_file import describe, open_array_file, read_array, write_array_file
from popsim.store._run_parts import read_parts, stream_log
from popsim.store.files import read_plain
from popsim.store.identity import FolderHeldError, lock_folder
from popsim.sweeps.cells import check_cell
from popsim.sweeps.folder import CellFolder, SweepFolder
from popsim.sweeps.sweep import Sweep

__all__ = ["CellLayout", "SweepIndex", "STATES"]

INDEX_FORMAT = 1
STATES = ("not started", "stopped", "damaged", "finished")
NOT_STARTED, STOPPED, DAMAGED, FINISHED = range(len(STATES))
PARTS = ("summary.json", "training.json", "run.json")  # one of which changes with a cell
LONGEST = 300  # characters of a message


@dataclasses.dataclass(frozen=True)
class CellLayout:
    """What the history of a cell holds.

    - `rows`: by axis of rows, such as "batch", the numbers of its batches.
    - `arrays`: by variable, its axes, the lengths of these, and its dtype.
    - `terms`: the terms of the loss.
    """

    rows: Mapping[str, tuple[int, ...]]
    arrays: Mapping[str, tuple[tuple[str, ...], tuple[int, ...], str]]
    terms: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.text)

    @functools.cached_property
    def text(self) -> str:
        """The layout as JSON."""
        rows = {axis: _as_ranges(batches) for axis, batches in self.rows.items()}
        return json.dumps({"rows": rows, "arrays": self.arrays, "terms": self.terms}, sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> "CellLayout":
        """Return the layout in a `text`."""
        found = json.loads(text)
        return cls(
            {str(axis): tuple(_of_ranges(ranges)) for axis, ranges in found["rows"].items()},
            {
                str(name): (tuple(axes), tuple(shape), str(dtype))
                for name, (axes, shape, dtype) in found["arrays"].items()
            },
            tuple(found["terms"]),
        )


def _as_ranges(numbers: tuple[int, ...]) -> list[list[int]]:
    """Return increasing numbers as ranges: first, last and step."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and len(numbers) > 1 and ranges[-1][2] in (0, number - ranges[-1][1]):
            ranges[-1][1:] = [number, number - ranges[-1][1]]
        else:
            ranges.append([number, number, 0])
    return ranges


def _of_ranges(ranges: list[list[int]]) -> Iterator[int]:
    for first, last, step in ranges:
        yield from range(first, last + 1, max(1, step))


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

    @classmethod
    def empty(cls, sweep: Sweep) -> "SweepIndex":
        """Return the index of a sweep of which nothing is trained."""
        n = sweep.n_cells
        zeros = np.zeros(n, np.int64)
        stamp, layout = np.zeros((n, 2), np.int64), np.full(n, -1)
        return cls(zeros, stamp, zeros.copy(), np.zeros(n), layout, {}, [], {}, sweep.n_members)

    @classmethod
    def read(cls, folder: SweepFolder, sweep: Sweep, sweep_id: str) -> "SweepIndex":
        """Read the index of a sweep; one that is missing, damaged or of another sweep is empty."""
        index = cls.empty(sweep)
        try:
            with open_array_file(folder.index, INDEX_FORMAT, "an index") as (file, content):
                details, forms = content["details"], content["arrays"]
                if details.get("sweep_id") != sweep_id:
                    return index
                found = {name: read_array(folder.index, file, name, form) for name, form in forms.items()}
            columns = {name: found.pop(name) for name in _COLUMNS}
            expected = {name: getattr(index, name).shape for name in _COLUMNS}
            if {name: column.shape for name, column in columns.items()} != expected:
                return index
            layouts = [CellLayout.parse(text) for text in details["layouts"]]
            problems = {int(number): str(said) for number, said in details["problems"].items()}
            if any(column.shape != (sweep.n_members,) for column in found.values()):
                return index
            return cls(
                **columns, members=found, layouts=layouts, problems=problems, n_members=sweep.n_members
            )
        except (CorruptDataError, MismatchError, LookupError, TypeError, ValueError, OSError):
            return index

    def write(self, folder: SweepFolder, sweep_id: str) -> None:
        """Write the index, unless another process does so or the folder cannot be written."""
        arrays = {name: getattr(self, name) for name in _COLUMNS} | self.members
        details = {
            "sweep_id": sweep_id,
            "layouts": [layout.text for layout in self.layouts],
            "problems": {str(number): said for number, said in self.problems.items()},
        }
        content = {"format": INDEX_FORMAT, "details": details}
        with contextlib.suppress(FolderHeldError, ValueError, SaveError), lock_folder(folder.path):
            forms = {name: describe(array) for name, array in arrays.items()}
            write_array_file(folder.index, arrays, forms, content)

    def refresh(self, folder: SweepFolder, sweep: Sweep, sweep_id: str) -> int:
        """Look at every cell, read those that changed, and return their number."""
        present = set(os.listdir(folder.cells)) if folder.cells.is_dir() else set()
        known = {layout: number for number, layout in enumerate(self.layouts)}
        firsts = sweep.first_members()
        n_changed = 0
        for number, seen in enumerate(map(tuple, self.stamp.tolist())):
            cell = folder.cell(number)
            stamp = stamp_of(str(cell.path)) if cell.path.name in present else (0, 0)
            if stamp == seen:
                continue
            n_changed += 1
            self.stamp[number] = stamp
            entry = read_cell(folder, sweep, sweep_id, number) if stamp[0] else CellEntry()
            self._put(number, entry, slice(firsts[number], firsts[number + 1]), known)
        return n_changed

    def _put(self, number: int, entry: "CellEntry", members: slice, known: dict[CellLayout, int]) -> None:
        """Enter what is known of a cell."""
        self.state[number], self.n_batches[number] = entry.state, entry.n_batches
        self.seconds[number] = entry.seconds
        self.problems.pop(number, None)
        if entry.problem:
            self.problems[number] = entry.problem[:LONGEST]
        if entry.layout is None:
            self.layout[number] = -1
        else:
            self.layout[number] = known.setdefault(entry.layout, len(known))
            self.layouts[:] = list(known)
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


def stamp_of(folder: str) -> tuple[int, int]:
    """Return which parts of a cell exist, and a number that changes when one is written or put there."""
    exist, changed = 0, 0
    for bit, part in enumerate(PARTS):
        with contextlib.suppress(OSError):
            file = os.lstat(f"{folder}/{part}")
            exist |= 1 << bit
            changed = (1_000_003 * changed + file.st_mtime_ns + file.st_size) % 2**63
    return exist, changed


def read_cell(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> CellEntry:
    """Read what the index holds of a cell, from its `cell.json` or, without it, from its run."""
    with contextlib.suppress(ValueError, OSError, LookupError, TypeError):
        return read_note(folder, sweep_id, number)
    try:
        return look_at_cell(folder, sweep, sweep_id, number)
    except (ValueError, OSError) as error:
        return CellEntry(DAMAGED, problem=str(error))


def read_note(folder: SweepFolder, sweep_id: str, number: int) -> CellEntry:
    """Read what the index holds of a cell from its `cell.json`.

    **Raises:** an error of some kind if it is missing, damaged, or not of this cell as it is now.
    """
    return _entry_of(read_sealed_json(folder.entry(number)), sweep_id, number, folder.cell(number))


def _entry_of(found: dict[str, Any], sweep_id: str, number: int, cell: CellFolder) -> CellEntry:
    """Return the entry in a `cell.json`; raises unless it is of this cell, its run and its summary."""
    files = {name: found[name] for name in ("run", "summary")}
    if (found["sweep"], found["cell"], files) != (sweep_id, number, _digests_of(cell)):
        raise ValueError("it is of another cell, or of another run or summary.")
    return CellEntry(
        FINISHED,
        int(found["n_batches"]),
        float(found["seconds"]),
        {name: np.asarray(values, float).tolist() for name, values in found["members"].items()},
        CellLayout.parse(found["layout"]),
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
    for name, path in (("run", cell.description), ("summary", cell.summary)):
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
    if damage := next(filter(None, (info.history_damage, *(array.damage for array in info.arrays))), ""):
        raise CorruptDataError(damage)
    members = {
        name: [float(held.get(i, -1)) for i in range(experiment.n_members)]
        for name, held in (("frozen_from", info.frozen), ("stopped_from", info.stopped))
    }
    losses, parts = info.losses, read_parts(cell)
    if not info.is_finished:  # the log may be ahead of what is saved
        losses, _ = last_losses(cell.log, parts.n_log_lines)
    if losses is not None:
        training = losses.training.copy()
        if info.stopped:  # their last losses are earlier ones
            for line in stream_log(cell, parts):
                now = logged_losses(line).training
                training = np.where(np.isfinite(now), now, training)
            training[list(info.frozen)] = np.nan
        members["training_loss"] = training.tolist()
        members["validation_loss"] = losses.validation.tolist()
    if info.is_finished:
        results = Run(cell, experiment).results()
        for column in results.columns:
            name = f"{column.title}, {column.heading}" if column.heading else column.title
            if results.has_members and (values := results.of_members(column)).size:
                members[f"result.{name}"] = values.tolist()
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
        str(name): tuple(dataset[name].values.tolist())
        for name in dataset.coords
        if dataset[name].dims == (name,) and (name == "batch" or str(name).endswith("_batch"))
    }
    arrays = {
        own.name: (own.axes, own.shape, own.dtype)
        for own in info.arrays
        if own.axes and own.axes[0] in rows and own.axes != (own.name,)
    }
    return CellLayout(rows, arrays, tuple(map(str, dataset.attrs.get("terms", ()))))
