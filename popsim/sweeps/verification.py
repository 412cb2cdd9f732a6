"""Check the files of a sweep, and report what is not as it was written."""

import contextlib
from pathlib import Path

from popsim._shared.text_checks import as_path
from popsim.experiments.run_info import UNCHECKED
from popsim.store import CorruptDataError
from popsim.store.json_files import read_json
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import Damage, damage_of_run, problem_of, read_parts
from popsim.sweeps.cells import DescribedSweep, SweepCell
from popsim.sweeps.entries import NOT_STARTED, read_note
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.index import SweepIndex
from popsim.sweeps.sweep_config import read_config

__all__ = ["verify_sweep"]

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
    and the notes of the cells, `cell.json`, must be as they were written, of these cells. What cells offered
    one another, in `selections/`, must be as it was written, and there of each cell that has selected.
    Nothing is written. A sweep that is being trained may be verified as well; of a cell that is being trained
    the notes are left out.

    **Arguments:**

    - `path`: the folder of the sweep.

    **Returns:** the problems by file, or by cell and file, relative to `path`; empty if there are none.
    """
    described = DescribedSweep.read(SweepFolder(as_path("path", path)))
    folder, index = described.folder, SweepIndex.read(described)
    found = _config(described) | _failures(folder)
    damage = {name: str(error) for name, error in found.items()} | _selections(described)
    if folder.index.exists() and not index.stamp.any():  # one is written only if there is something to say
        damage[folder.index.name] = "is damaged, or of another sweep: it is made again from the cells"
    for number in range(described.sweep.n_cells):
        cell = described.cell(number)
        name = f"{folder.cells.name}/{cell.folder.path.name}"
        if cell.folder.is_started:
            damage |= {f"{name}/{file}": str(error) for file, error in _cell(cell).items()}
        elif index.state[number] != NOT_STARTED:
            advice = f"To train it: {folder.command('resume')}"
            damage[name] = f"has been removed since the index was written. {advice}"
    return damage


def _config(described: DescribedSweep) -> Damage:
    folder = described.folder
    if not folder.config.exists():
        advice = f"To write it again: {folder.command('resume')}"
        return {folder.config.name: CorruptDataError(f"must be there; it is missing. {advice}")}

    def read() -> None:
        if read_config(folder.config) != described.sweep:
            advice = f"to write it again, remove it, then: {folder.command('resume')}"
            raise CorruptDataError(f"must say the same as {folder.description.name}: {advice}")

    return problem_of(folder.config.name, read)


def _failures(folder: SweepFolder) -> Damage:
    damage: Damage = {}
    for file in sorted(folder.failures.glob("*.json")):
        damage |= problem_of(f"{folder.failures.name}/{file.name}", lambda file=file: read_json(file))
    return damage


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


def _cell(cell: SweepCell) -> Damage:
    """Return the problems of a cell by file."""
    try:
        damage = damage_of_run(cell.read())
    except (ValueError, OSError) as error:
        return {cell.folder.description.name: error}
    if damage or cell.is_locked or not cell.folder.is_finished:
        return damage

    def read() -> None:
        try:
            read_note(cell)
        except CorruptDataError as error:
            advice = f"To write it again: {cell.of_sweep.folder.command('resume')}"
            raise CorruptDataError(f"{str(error).rstrip('.')}. {advice}") from None

    return problem_of(cell.folder.entry.name, read)
