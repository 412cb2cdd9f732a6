"""Check the files of a sweep, and report what is not as it was written."""

from pathlib import Path

from popsim.experiments.run_info import UNCHECKED
from popsim.store import CorruptDataError
from popsim.store.files import missing_file
from popsim.store.json_files import read_json
from popsim.store.run_parts import Damage, damage_of_run, problem_of, read_parts
from popsim.sweeps.cells import SweepCell
from popsim.sweeps.opened_sweep import OpenedSweep, read_sweep
from popsim.sweeps.selection import read_selections
from popsim.sweeps.sweep_config import read_config

__all__ = ["verify_sweep"]

UNCHECKED_OF_SWEEP = (
    "whether the whole folder of a cell was removed, which counts as not started; whether files of failures/ "
    f"are missing; what is in logs/ and figures/; of each cell, {UNCHECKED}"
)
"""What `verify_sweep` does not check."""

UNCHECKED_WITHOUT_PLAN = (
    "as the experiment is not known, sweep.yaml, selections/, and whether cells are as planned; "
    f"{UNCHECKED_OF_SWEEP}"
)
"""What it does not check where the experiment is not registered."""


def verify_sweep(path: str | Path) -> dict[str, str]:
    """Check a sweep: its own files, and each cell as `verify_run` does.

    Each cell must be what `sweep.json` plans, `sweep.yaml` must say the same as `sweep.json`, and the notes
    of the cells, `cell.json`, must be as they were written, of these cells, and so must the scores of
    populations that have selected, in `selections/`. A cell of which the whole folder was removed counts as
    not started, and is not named. Nothing is written. A sweep that is being trained may be verified as well;
    of a cell that is being trained the notes are left out. Where the experiment is not registered, cells are
    not compared with the plan.

    **Arguments:**

    - `path`: the folder of the sweep.

    **Returns:** the problems by file, or by cell and file, relative to `path`; empty if there are none.
    """
    opened = read_sweep(path, is_known=False)
    folder = opened.folder
    found = {} if opened.plan is None else _config(opened) | _selections(opened)
    for file in sorted(folder.failures.glob("*.json")):
        found |= problem_of(f"{folder.failures.name}/{file.name}", lambda file=file: read_json(file))
    for cell in map(opened.cell, range(opened.n_cells)):
        name = f"{folder.cells.name}/{cell.folder.path.name}"
        if cell.folder.is_started:
            is_held = folder.holder(cell.number) is not None
            damage = _cell(cell, folder.command("resume"), is_held=is_held)
            found |= {f"{name}/{file}": error for file, error in damage.items()}
    return {name: str(error) for name, error in found.items()}


def _config(opened: OpenedSweep) -> Damage:
    folder = opened.folder
    if not folder.config.exists():
        advice = f"To write it again: {folder.command('resume')}"
        return {folder.config.name: CorruptDataError(f"must be there; it is missing. {advice}")}

    def read() -> None:
        if read_config(folder.config) != opened.sweep:
            advice = f"to write it again, remove it, then: {folder.command('resume')}"
            raise CorruptDataError(f"must say the same as {folder.description.name}: {advice}")

    return problem_of(folder.config.name, read)


def _selections(opened: OpenedSweep) -> Damage:
    """Verify the scores by which populations selected; they must be there if a cell has selected."""
    sweep, folder, damage = opened.sweep, opened.folder, {}
    for first in range(0, sweep.n_cells if sweep.selects_across_cells else 0, sweep.division.n_parts):
        cells = sweep.population_of(first)
        path = folder.selection(cells)
        name = f"{folder.selections.name}/{path.name}"
        damage |= problem_of(name, lambda cells=cells: read_selections(opened, cells))
        if not path.exists() and any(map(_has_selected, map(opened.cell, cells))):
            damage[name] = missing_file(path)
    return damage


def _has_selected(cell: SweepCell) -> bool:
    """Whether the history of a cell has selections; a damaged cell is named by itself."""
    try:
        lengths = read_parts(cell.read()).history
    except (ValueError, OSError):
        return False
    return any(n_rows for axis, n_rows in lengths.items() if axis.startswith("selection"))


def _cell(cell: SweepCell, command: str, *, is_held: bool) -> Damage:
    """Return the problems of a cell by file."""
    try:
        damage = damage_of_run(cell.read())
    except (ValueError, OSError) as error:
        return {cell.folder.description.name: error}
    if damage or is_held or not cell.folder.is_finished:
        return damage

    def read() -> None:
        try:
            cell.read_note()
        except CorruptDataError as error:
            raise CorruptDataError(f"{str(error).rstrip('.')}. To write it again: {command}") from None

    return problem_of(cell.folder.note.name, read)
