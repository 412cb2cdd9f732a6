"""Read everything in a sweep, and say what is not as it was written."""

import re
from pathlib import Path

import numpy as np

from popsim._text_checks import as_path
from popsim.experiments import verify_run
from popsim.experiments.info import complaint
from popsim.store.files import read_plain
from popsim.store.json_files import read_json
from popsim.sweeps.cells import check_cell
from popsim.sweeps.config import config_text, read_config
from popsim.sweeps.folder import SWEEP_FORMAT, SweepFolder
from popsim.sweeps.index import (
    FINISHED,
    NOT_STARTED,
    CellEntry,
    SweepIndex,
    look_at_cell,
    read_note,
    stamp_of,
)
from popsim.sweeps.populations import shared_population
from popsim.sweeps.sweep import Sweep

__all__ = ["verify_sweep"]

LARGEST_CONFIG = 2**20
_FAILURE = re.compile(r"\d{6,}\.json")


def verify_sweep(path: str | Path) -> dict[str, str]:
    """Read everything in a sweep: its own files, and each cell as `verify_run` does.

    Each cell must be what `sweep.json` plans, `sweep.yaml` must say the same as `sweep.json`, and the index
    and the notes of the cells, `cell.json`, must hold what is in their runs. Nothing is written. A sweep that
    is being trained may be verified as well; of a cell that is being trained the notes are left out.

    **Arguments:**

    - `path`: the folder of the sweep.

    **Returns:** the problems by file, or by cell and file, relative to `path`; empty if there are none.
    """
    folder = SweepFolder(as_path("path", path))
    described, sweep = folder.read()
    sweep_id = described["sweep_id"]
    index = SweepIndex.read(folder, sweep, sweep_id)
    damage = _config(folder, sweep) | _failures(folder) | _selections(folder, sweep, sweep_id)
    if folder.index.exists() and not index.stamp.any():  # one is written only if there is something to say
        damage[folder.index.name] = "is damaged, or of another sweep: it is made again from the cells"
    for number in range(sweep.n_cells):
        cell = folder.cell(number)
        if not cell.is_started:
            if index.state[number] != NOT_STARTED:
                damage[f"{folder.cells.name}/{cell.path.name}"] = (
                    f"has been removed since the index was written: {folder.command('resume')} trains it"
                )
            continue
        stamp = stamp_of(str(cell.path))
        problems, entry = _cell(folder, sweep, sweep_id, number, has_note=described["format"] == SWEEP_FORMAT)
        damage |= {f"{folder.cells.name}/{cell.path.name}/{file}": text for file, text in problems.items()}
        if entry is None or stamp != tuple(index.stamp[number].tolist()):
            continue  # the index is brought up to date when the sweep is opened
        row = _row(index, sweep, number)
        is_same = _are_equal(row, entry) if entry.state == FINISHED else row.state == entry.state
        if not is_same:  # of a cell that is not finished the rest may be one checkpoint behind
            damage.setdefault(folder.index.name, f"must hold what is in the run of cell {number}")
    return damage


def _config(folder: SweepFolder, sweep: Sweep) -> dict[str, str]:
    try:
        with read_plain(folder.config) as file:
            is_same = file.read(LARGEST_CONFIG) == config_text(sweep).encode()
        is_same = is_same or read_config(folder.config) == sweep  # of a popsim that writes it otherwise
    except FileNotFoundError:
        return {
            folder.config.name: f"must be there; it is missing: {folder.command('resume')} writes it again"
        }
    except (ValueError, OSError) as error:
        return {folder.config.name: str(error)}
    advice = f"{folder.command('resume')} writes it again when it is removed"
    return (
        {} if is_same else {folder.config.name: f"must say the same as {folder.description.name}: {advice}"}
    )


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


def _selections(folder: SweepFolder, sweep: Sweep, sweep_id: str) -> dict[str, str]:
    """Verify what the cells of populations offered one another."""
    damage = {}
    for number in range(sweep.n_cells) if sweep.selects_across_cells else ():
        cells = sweep.population_of(number)
        place = folder.selections(cells)
        if number == cells[0] and place.is_dir():
            problems = shared_population(folder, sweep, sweep_id, number, lambda missing: False).damage()
            damage |= {
                (place / file).relative_to(folder.path).as_posix(): text for file, text in problems.items()
            }
    return damage


def _cell(
    folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int, *, has_note: bool
) -> tuple[dict[str, str], CellEntry | None]:
    """Verify a cell.

    **Arguments:**

    - `has_note`: whether a finished cell must have a `cell.json`.

    **Returns:** the problems by file, and what its run says if there are none.
    """
    cell = folder.cell(number)
    try:
        check_cell(folder, sweep, sweep_id, number)
        damage = verify_run(cell.path)
        if damage or folder.holder(number) is not None:
            return damage, None
        entry = look_at_cell(folder, sweep, sweep_id, number)
    except (ValueError, OSError) as error:
        return {cell.description.name: str(error)}, None
    if entry.state != FINISHED or not has_note:
        return {}, entry
    problem = complaint(lambda: _check_note(read_note(folder, sweep, sweep_id, number), entry))
    advice = f"{problem} ({folder.command('resume')} writes it again)"
    return ({cell.entry.name: advice} if problem else {}), entry


def _check_note(note: CellEntry, entry: CellEntry) -> None:
    if not _are_equal(note, entry):
        raise ValueError("must hold what is in the run of the cell")


def _row(index: SweepIndex, sweep: Sweep, number: int) -> CellEntry:
    """Return what an index holds of a cell."""
    firsts, layout = sweep.first_members(), int(index.layout[number])
    members = {name: values[firsts[number] : firsts[number + 1]] for name, values in index.members.items()}
    return CellEntry(
        int(index.state[number]),
        int(index.n_batches[number]),
        float(index.seconds[number]),
        {name: values.tolist() for name, values in members.items()},
        index.layouts[layout] if 0 <= layout < len(index.layouts) else None,
    )


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
