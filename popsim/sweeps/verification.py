"""Check the files of a sweep, and report what is not as it was written."""

import contextlib
from pathlib import Path

from popsim.experiments.run_info import UNCHECKED
from popsim.store import CorruptDataError
from popsim.store.files import missing_file
from popsim.store.json_files import read_json
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import Damage, damage_of_run, problem_of, read_parts
from popsim.sweeps.cell_notes import read_note
from popsim.sweeps.cells import DescribedSweep, SweepCell, read_plan
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.selection import read_selections
from popsim.sweeps.sweep_config import read_config

__all__ = ["verify_sweep"]

LOST_CELLS = "whether the whole folder of a cell was removed, which counts as not started"
UNCHECKED_OF_SWEEP = (
    f"{LOST_CELLS}; whether files of failures/ are missing; what is in logs/ and figures/; of each cell, "
    f"{UNCHECKED}"
)
"""What `verify_sweep` does not check."""

UNCHECKED_OF_OVERVIEW = (
    "all but the cells that are finished or stopped, as the experiment is not known; "
    f"{LOST_CELLS}; of these, {UNCHECKED}"
)
"""What `SweepOverview.verify` does not check."""


def verify_sweep(path: str | Path) -> dict[str, str]:
    """Check a sweep: its own files, and each cell as `verify_run` does.

    Each cell must be what `sweep.json` plans, `sweep.yaml` must say the same as `sweep.json`, and the notes
    of the cells, `cell.json`, must be as they were written, of these cells, and so must the scores of
    populations that have selected, in `selections/`. A cell of which the whole folder was removed counts as
    not started, and is not named. Nothing is written. A sweep that is being trained may be verified as well;
    of a cell that is being trained the notes are left out.

    **Arguments:**

    - `path`: the folder of the sweep.

    **Returns:** the problems by file, or by cell and file, relative to `path`; empty if there are none.
    """
    described = read_plan(path)
    folder = described.folder
    found = _config(described) | _failures(folder) | _selections(described)
    damage = {name: str(error) for name, error in found.items()}
    for cell in map(described.cell, range(described.sweep.n_cells)):
        name = f"{folder.cells.name}/{cell.folder.path.name}"
        if cell.folder.is_started:
            damage |= {f"{name}/{file}": str(error) for file, error in _cell(cell).items()}
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


def _selections(described: DescribedSweep) -> Damage:
    """Verify the scores by which populations selected."""
    sweep, folder, damage = described.sweep, described.folder, {}
    for first in range(0, sweep.n_cells if sweep.selects_across_cells else 0, sweep.division.n_parts):
        cells = sweep.population_of(first)
        name = f"{folder.selections.name}/{folder.selection(cells).name}"
        damage |= problem_of(name, lambda cells=cells: read_selections(described, cells))
        if not folder.selection(cells).exists() and any(map(_has_selected, map(described.cell, cells))):
            damage[name] = missing_file(folder.selection(cells))
    return damage


def _has_selected(cell: SweepCell) -> bool:
    """Whether the history of a cell has selections."""
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
    if damage or cell.of_sweep.folder.holder(cell.number) or not cell.folder.is_finished:
        return damage

    def read() -> None:
        try:
            read_note(cell)
        except CorruptDataError as error:
            advice = f"To write it again: {cell.of_sweep.folder.command('resume')}"
            raise CorruptDataError(f"{str(error).rstrip('.')}. {advice}") from None

    return problem_of(cell.folder.note.name, read)
