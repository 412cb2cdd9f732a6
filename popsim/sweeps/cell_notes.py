"""What is known of a cell of a sweep: read from the note that it leaves when it ends, or from its run."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from popsim.experiments import AbstractExperiment
from popsim.experiments.run_info import RunInfo, logged_losses
from popsim.store import CorruptDataError, ListedArray, as_json_numbers, read_sealed_json, write_sealed_json
from popsim.store.files import missing_file
from popsim.store.run_parts import read_summary
from popsim.sweeps.cells import DescribedSweep, SweepCell
from popsim.sweeps.folder import CellFolder

__all__ = ["CellLayout", "CellNote", "metric_columns", "read_note", "read_notes", "write_note"]

NOT_STARTED, STOPPED, DAMAGED, FINISHED = STATES = ("not started", "stopped", "damaged", "finished")
METRIC = "result_"  # before the names of metrics in the table of a sweep
FIRST_BATCHES = ("frozen_from", "stopped_from")
LOSSES = ("training_loss", "validation_loss")


@dataclasses.dataclass(frozen=True)
class CellNote:
    """What is known of a cell: its state, the number of batches that are saved, and what is wrong with it.

    Of its members there are, by name, the last losses and when they became inactive, NaN for what is not
    known, or did not happen; and the metrics, by titles such as "error (mm), noise on, mean".
    """

    state: str = NOT_STARTED
    n_batches: int = 0
    members: Mapping[str, list[float]] = dataclasses.field(default_factory=dict)
    metrics: Mapping[str, list[float]] = dataclasses.field(default_factory=dict)
    layout: str = ""
    problem: str = ""


def read_notes(described: DescribedSweep) -> list[CellNote]:
    """Read what is known of all cells of a sweep."""
    cells = described.folder.cells
    # One listing: a look at each of many cells that have not begun would take a call of the system each.
    present = set(os.listdir(cells)) if cells.is_dir() else set()
    places = map(described.cell, range(described.sweep.n_cells))
    return [_read(cell) if cell.folder.path.name in present else CellNote() for cell in places]


def _read(cell: SweepCell) -> CellNote:
    with contextlib.suppress(ValueError, OSError):
        return read_note(cell)
    try:
        return inspect_cell(cell) if cell.folder.is_started else CellNote()
    except (ValueError, OSError) as error:
        return CellNote(DAMAGED, problem=str(error)[:300])


def read_note(cell: SweepCell) -> CellNote:
    """Read the `cell.json` of a finished cell; raises if it is not of this cell and its run as it is now."""
    note = read_sealed_json(cell.folder.note)
    expected = {**cell.part_of, **_digests_of(cell.folder)}
    # Those of earlier versions have no metrics.
    if "metrics" not in note or {name: note.get(name) for name in expected} != expected:
        raise CorruptDataError(f"{cell.folder.note} must be of this cell, and of its run as it is now.")
    members, metrics = (
        {name: [np.nan if n is None else float(n) for n in numbers] for name, numbers in note[part].items()}
        for part in ("members", "metrics")
    )
    return CellNote(FINISHED, note["n_batches"], members, metrics, note["layout"])


def write_note(cell: SweepCell) -> None:
    """Write the `cell.json` of a finished cell, unless it is there; its run must be locked."""
    note = inspect_cell(cell)
    if note.state != FINISHED or not note.layout:
        return
    described = {
        **cell.part_of,
        **_digests_of(cell.folder),
        "n_batches": note.n_batches,
        "members": {name: as_json_numbers(values) for name, values in note.members.items()},
        "metrics": {name: as_json_numbers(values) for name, values in note.metrics.items()},
        "layout": note.layout,
    }
    with contextlib.suppress(ValueError, OSError):
        if read_sealed_json(cell.folder.note) == described:
            return
    write_sealed_json(cell.folder.note, described)


def _digests_of(cell: CellFolder) -> dict[str, str]:
    """Return the digests of the files on which a `cell.json` depends."""
    files = {"run": cell.description, "summary": cell.summary, "history": cell.history / "zarr.json"}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def inspect_cell(cell: SweepCell) -> CellNote:
    """Read what is known of a cell from its run; raises what names its damage."""
    run = cell.read()
    info = RunInfo(run)
    if run.content.get("finished") and not info.is_finished:
        raise missing_file(cell.folder.summary)
    if info.history_damage:
        raise CorruptDataError(info.history_damage)
    n_members = cell.experiment.n_members
    members = {
        name: [float(batches.get(i, np.nan)) for i in range(n_members)]
        for name, batches in zip(FIRST_BATCHES, (info.frozen, info.stopped), strict=True)
    }
    members |= _losses_of(info)
    metrics = member_metrics(cell.experiment, read_summary(run)) if info.is_finished else {}
    if wrong := next((name for name, numbers in members.items() if len(numbers) != n_members), None):
        raise CorruptDataError(f"{wrong} of {run.path.parent} must be of {n_members} members.")
    layout = layout_text(cell.folder.path, info.arrays)
    return CellNote(FINISHED if info.is_finished else STOPPED, info.n_saved, members, metrics, layout)


def _losses_of(info: RunInfo) -> dict[str, list[float]]:
    """Return the last losses of the members, by name."""
    parts, last, training = info.parts, None, None
    # The log of a run that is not finished may be ahead of what is saved.
    for line in itertools.islice(parts.stream_log(), None if info.is_finished else parts.n_log_lines):
        last = line
        if info.stopped:  # their last losses are earlier ones
            now = logged_losses(line).training
            training = now if training is None else np.where(np.isfinite(now), now, training)
    if last is None:
        return {}
    losses = logged_losses(last)
    training = losses.training.copy() if training is None else training
    training[list(info.frozen)] = np.nan
    return dict(zip(LOSSES, (training.tolist(), losses.validation.tolist()), strict=True))


def member_metrics(experiment: AbstractExperiment, summary: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the metrics of the members in a summary, by name."""
    metrics = {}
    try:
        results = experiment.table(dict(summary))
        for column in results.columns if results.has_members else ():
            numbers = results.of_members(column)
            if numbers.shape == (experiment.n_members,):
                heading = f", {column.heading}" if column.heading else ""
                metrics[f"{column.title}{heading}"] = numbers.tolist()
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDataError(f"a summary must be of {experiment.name}: {error!r:.200}") from error
    return metrics


Form = tuple[tuple[str, ...], tuple[int, ...], str]
"""The axes of an array, their lengths, and its dtype."""


@dataclasses.dataclass(frozen=True)
class CellLayout:
    """What the history of a cell holds: by axis of rows the batches, by variable its form, the loss terms."""

    rows: Mapping[str, Sequence[int]]
    arrays: Mapping[str, Form]
    terms: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "CellLayout":
        """Invert `layout_text`."""
        described = json.loads(text)
        rows = {
            axis: [*itertools.chain.from_iterable(range(*part) for part in ranges)]
            for axis, ranges in described["rows"].items()
        }
        arrays = {
            name: (tuple(axes), tuple(shape), dtype)
            for name, (axes, shape, dtype) in described["arrays"].items()
        }
        return cls(rows, arrays, tuple(described["terms"]))


def layout_text(path: Path, stored: Sequence[ListedArray]) -> str:
    """Return the layout of the history of the run in `path` as JSON; empty if it has none."""
    if not stored:
        return ""
    import popsim.training

    dataset = popsim.training.open_history(path)
    rows = {
        str(name): _as_ranges(dataset[name].values.tolist())
        for name in dataset.coords
        if dataset[name].dims == (name,) and (name == "batch" or str(name).endswith("_batch"))
    }
    arrays = {
        array.name: (array.axes, array.shape, array.dtype)
        for array in stored
        if array.axes and array.axes[0] in rows and array.axes != (array.name,)
    }
    terms = [*map(str, dataset.attrs.get("terms", ()))]
    return json.dumps({"rows": rows, "arrays": arrays, "terms": terms}, sort_keys=True)


def _as_ranges(numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return increasing numbers as ranges, as many as there are changes of their distance."""
    ranges: list[range] = []
    for number in numbers:
        last = ranges[-1] if ranges else None
        if last is None or (len(last) > 1 and number - last[-1] != last.step):
            ranges.append(range(number, number + 1))
        else:
            ranges[-1] = range(last[0], number + 1, number - last[-1])
    return [(part.start, part.stop, part.step) for part in ranges]


def metric_columns(titles: Iterable[str]) -> dict[str, str]:
    """Return the titles of metrics by column: an identifier that `pandas.DataFrame.query` takes.

    "error (mm), noise on, mean" has the column "result_error_mm_noise_on_mean"; where two become the same,
    the second ends with "_2".
    """
    columns: dict[str, str] = {}
    for title in titles:
        words = title.replace("/", " per ").replace("%", " percent ")
        name = base = METRIC + re.sub(r"\W+", "_", words, flags=re.ASCII).strip("_")
        number = 2
        while name in columns:
            name, number = f"{base}_{number}", number + 1
        columns[name] = title
    return columns
