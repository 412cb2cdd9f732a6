"""Check the files of a sweep, and report what is not as it was written."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from popsim._text_checks import as_path
from popsim.experiments.run_info import UNCHECKED, RunInfo
from popsim.store.json_files import read_json
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import read_parts
from popsim.sweeps.cells import DescribedSweep, SweepCell
from popsim.sweeps.entries import FINISHED, NOT_STARTED, CellEntry, inspect_cell, read_note, stamp_of
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.index import SweepIndex
from popsim.sweeps.sweep_config import config_text, read_config

__all__ = ["verify_sweep"]

LARGEST_CONFIG = 2**20
_FAILURE = re.compile(r"\d{6,}\.json")


UNCHECKED_OF_SWEEP = (
    f"whether files of failures/ are missing; what is in logs/ and figures/; of each cell, {UNCHECKED}"
)
"""What `verify_sweep` does not check."""

UNCHECKED_OF_OVERVIEW = (
    f"all but the cells that are finished or stopped, as the experiment is not known; of these, {UNCHECKED}"
)
"""What `SweepOverview.verify` does not check."""


def verify_sweep(path: str | Path) -> dict[str, str]:
    """Check a sweep: its own files, and each cell as `verify_run` does.

    Each cell must be what `sweep.json` plans, `sweep.yaml` must say the same as `sweep.json`, and the index
    and the notes of the cells, `cell.json`, must hold what is in their runs. What cells offered one another,
    in `selections/`, must be as it was written, and there of each cell that has selected.
    Nothing is written. A sweep that is being trained may be verified as well; of a cell that is being trained
    the notes are left out.

    **Arguments:**

    - `path`: the folder of the sweep.

    **Returns:** the problems by file, or by cell and file, relative to `path`; empty if there are none.
    """
    described = DescribedSweep.read(SweepFolder(as_path("path", path)))
    folder, index = described.folder, SweepIndex.read(described)
    damage = _config(described) | _failures(folder) | _selections(described)
    if folder.index.exists() and not index.stamp.any():  # one is written only if there is something to say
        damage[folder.index.name] = "is damaged, or of another sweep: it is made again from the cells"
    for number in range(described.sweep.n_cells):
        cell = described.cell(number)
        name = f"{folder.cells.name}/{cell.folder.path.name}"
        if not cell.folder.is_started:
            if index.state[number] != NOT_STARTED:
                damage[name] = (
                    f"has been removed since the index was written. To train it: {folder.command('resume')}"
                )
            continue
        stamp = stamp_of(str(cell.folder.path))
        problems, entry = _cell(cell)
        damage |= {f"{name}/{file}": text for file, text in problems.items()}
        if entry is None or stamp != tuple(index.stamp[number].tolist()):
            continue  # the index is brought up to date when the sweep is opened
        row = index.entry(cell)
        is_same = _are_equal(row, entry) if entry.state == FINISHED else row.state == entry.state
        if not is_same:  # of a cell that is not finished the rest may be one checkpoint behind
            damage.setdefault(folder.index.name, f"must hold what is in the run of cell {number}")
    return damage


def _config(described: DescribedSweep) -> dict[str, str]:
    folder, sweep = described.folder, described.sweep
    try:
        with folder.config.open("rb") as file:
            is_same = file.read(LARGEST_CONFIG) == config_text(sweep).encode()
        is_same = is_same or read_config(folder.config) == sweep  # of a popsim that writes it otherwise
    except FileNotFoundError:
        return {
            folder.config.name: f"must be there; it is missing. To write it again: {folder.command('resume')}"
        }
    except (ValueError, OSError) as error:
        return {folder.config.name: str(error)}
    if is_same:
        return {}
    advice = f"To write it again, remove it, then: {folder.command('resume')}"
    return {folder.config.name: f"must say the same as {folder.description.name}. {advice}"}


def _failures(folder: SweepFolder) -> dict[str, str]:
    files = sorted(folder.failures.iterdir()) if folder.failures.is_dir() else []
    problems = {
        f"{folder.failures.name}/{file.name}": complaint(lambda file=file: _read_failure(file))
        for file in files
        if _FAILURE.fullmatch(file.name)
    }
    return {name: problem for name, problem in problems.items() if problem}


def _read_failure(file: Path) -> None:
    content = read_json(file)
    if not isinstance(content, dict) or not all(
        isinstance(content.get(key), str) for key in ("error", "host")
    ):
        raise ValueError("must say why a cell failed, and on which host")


def _selections(described: DescribedSweep) -> dict[str, str]:
    """Verify what the cells of populations offered one another."""
    folder, sweep, damage = described.folder, described.sweep, {}
    for number in range(sweep.n_cells) if sweep.selects_across_cells else ():
        cells = sweep.population_of(number)
        place = folder.selections(cells)
        population = described.cell(number).shared_population(lambda missing: False)
        if not (note := population.note).exists() and _has_selected(described.cell(number)):
            damage[note.relative_to(folder.path).as_posix()] = (
                "must list what the cell offered; it is missing"
            )
        if number == cells[0] and place.is_dir():
            damage |= {
                (place / file).relative_to(folder.path).as_posix(): text
                for file, text in population.damage().items()
            }
    return damage


def _has_selected(cell: SweepCell) -> bool:
    """Whether the history of a cell has selections, before each of which it offered its members."""
    with contextlib.suppress(ValueError, OSError):  # a damaged cell is named by itself
        lengths = read_parts(DescribedRun.read(cell.folder)).history
        return any(n_rows for axis, n_rows in lengths.items() if axis.startswith("selection"))
    return False


def _cell(cell: SweepCell) -> tuple[dict[str, str], CellEntry | None]:
    """Verify a cell.

    **Returns:** the problems by file, and what its run says if there are none.
    """
    try:
        damage = RunInfo(cell.read()).find_damage()
        if damage or cell.is_locked:
            return damage, None
        entry = inspect_cell(cell)  # which reads the run again, as it may have been trained meanwhile
    except (ValueError, OSError) as error:
        return {cell.folder.description.name: str(error)}, None
    if entry.state != FINISHED:
        return {}, entry
    problem = complaint(lambda: _check_note(read_note(cell), entry))
    if not problem:
        return {}, entry
    advice = f"{problem.rstrip('.')}. To write it again: {cell.of_sweep.folder.command('resume')}"
    return {cell.folder.entry.name: advice}, entry


def complaint(read: Callable[[], object]) -> str:
    """Return the message of the error that a read raises; empty if it succeeds."""
    try:
        read()
    except (ValueError, OSError) as error:
        return str(error)
    return ""


def _check_note(note: CellEntry, entry: CellEntry) -> None:
    if not _are_equal(note, entry):
        raise ValueError("must hold what is in the run of the cell")


def _are_equal(entry: CellEntry, expected: CellEntry) -> bool:
    """Whether two entries of a cell are the same, where a number that is missing is NaN."""
    names = ("state", "n_batches", "seconds", "layout")
    unknown = [np.nan] * max(map(len, expected.members.values()), default=0)
    return all(getattr(entry, name) == getattr(expected, name) for name in names) and all(
        np.array_equal(
            np.asarray(entry.members.get(name, unknown), float),
            np.asarray(expected.members.get(name, unknown), float),
            equal_nan=True,
        )
        for name in {*entry.members, *expected.members}
    )
