"""What is said of a sweep: its plan, its state, and which of its files are not as they were written."""

import itertools
from pathlib import Path

from popsim._shared.text_checks import align, as_word, count_text, printable, shorten
from popsim.experiments import Column, ResultTable, Row
from popsim.experiments.run_info import UNCHECKED
from popsim.store.json_files import read_json
from popsim.store.run_parts import Damage, damage_of_run, problem_of
from popsim.sweeps.cell_training import read_selections
from popsim.sweeps.cells import DAMAGED, NOT_STARTED, SweepCell
from popsim.sweeps.opened_sweep import OpenedSweep, read_sweep
from popsim.sweeps.sweep import Sweep

__all__ = ["plan_table", "state_text", "verify_sweep"]

MOST_ROWS = 40
MOST_CELLS = 20
LONGEST_AXIS = 1000  # characters
UNCHECKED_OF_SWEEP = (
    "whether the whole folder of a cell was removed, which counts as not started; whether files of failures/ "
    f"and selections/ are missing; what is in logs/ and figures/; of each cell, {UNCHECKED}"
)
"""What `verify_sweep` does not check."""
UNCHECKED_WITHOUT_PLAN = f"as the experiment is not known, whether cells are as planned; {UNCHECKED_OF_SWEEP}"
"""What it does not check where the experiment is not registered."""


def state_text(opened: OpenedSweep) -> str:
    """Describe a sweep as `popsim info` prints it, also where its experiment is not registered."""
    lines, unfinished = _about(opened), opened.unfinished_cells
    texts = ((number, opened.text_of(number)) for number in unfinished)
    begun = (f"  cell {number}: {text}" for number, text in texts if text != NOT_STARTED)
    named = [*itertools.islice(begun, MOST_CELLS)]
    if named:
        lines += ["", "not finished", *named]
        lines += [f"  and {len(unfinished) - len(named)} more"] * (len(unfinished) > len(named))
    if unfinished:
        lines.append(f"To train them: {opened.folder.command('resume')}")
    if opened.cells_in(DAMAGED):
        lines.append(damaged_text(opened))
    return "\n".join(map(printable, lines))


def _about(opened: OpenedSweep) -> list[str]:
    content = opened.content
    module, (first, end) = content["module"], content["seeds"]
    origin = "" if module.startswith("popsim.") else f", of the module {module}"
    axes = [f"{name}: {', '.join(map(str, values))}" for name, values in content["axes"].items()]
    codes = opened.cells_by_code
    by_code = [f"{count_text(len(cells), 'cell')} from {cells[0]} by {code}" for code, cells in codes.items()]
    rows = [
        ("sweep", str(opened.folder.path)),
        ("experiment", f"{content['experiment']}{origin}"),
        ("networks", f"{content['n_members']}, in {count_text(opened.n_cells, 'cell')}"),
        *(("axis", shorten(axis, LONGEST_AXIS)) for axis in axes),
        ("seeds", f"{first} to {end - 1}"),
        ("cells", opened.counts_text),
        *(("code", text) for text in by_code),
    ]
    warning = "cells were trained by different code of yours: they are not one experiment"
    return [*align(rows), *[warning][: len(codes)]]


def damaged_text(opened: OpenedSweep) -> str:
    """Say how damaged cells are trained again."""
    damaged = opened.cells_in(DAMAGED)
    paths = " ".join(as_word(opened.folder.cell(number).path) for number in damaged[:MOST_CELLS])
    more = f" and {len(damaged) - MOST_CELLS} more" if len(damaged) > MOST_CELLS else ""
    return f"a damaged cell is trained again when its folder is removed: {paths}{more}"


def plan_table(sweep: Sweep) -> str:
    """Return the cells of a sweep with the number of their members, as text."""
    cells = itertools.islice(sweep.cells(), MOST_ROWS)
    rows = [Row(f"cell {cell.number}", [cell.experiment.n_members, str(cell)]) for cell in cells]
    if sweep.n_cells > MOST_ROWS:
        rows.append(Row("...", ["", f"and {sweep.n_cells - MOST_ROWS} more"]))
    rows.append(Row("all", [sweep.n_members, ""]))
    return str(ResultTable([Column("networks", digits=0), Column("what")], rows))


def verify_sweep(path: str | Path) -> dict[str, str]:
    """Check a sweep: its own files, and each cell as `verify_run` does.

    Each cell must be what `sweep.json` plans, and the scores of cells that have selected, in `selections/`,
    must be as they were written, of these cells. A cell of which the whole folder was removed counts as not
    started, and is not named. Nothing is written. A sweep that is being trained may be verified as well.
    Where the experiment is not registered, cells are not compared with the plan.

    **Arguments:**

    - `path`: the folder of the sweep.

    **Returns:** the problems by file, or by cell and file, relative to `path`; empty if there are none.
    """
    opened = read_sweep(path, is_known=False)
    folder, found = opened.folder, {}
    for file in sorted(folder.failures.glob("*.json")):
        found |= problem_of(f"{folder.failures.name}/{file.name}", lambda file=file: read_json(file))
    for cell in map(opened.cell, range(opened.n_cells)):
        scores = f"{folder.selections.name}/{folder.selection(cell.number).name}"
        found |= problem_of(scores, lambda cell=cell: read_selections(opened, cell.number))
        if cell.is_started:
            place = f"{folder.cells.name}/{cell.folder.path.name}"
            found |= {f"{place}/{file}": error for file, error in _damage_of_cell(cell).items()}
    return {name: str(error) for name, error in found.items()}


def _damage_of_cell(cell: SweepCell) -> Damage:
    """Return the problems of a cell by file."""
    try:
        return damage_of_run(cell.read())
    except (ValueError, OSError) as error:
        return {cell.folder.description.name: error}
