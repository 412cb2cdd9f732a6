"""A sweep as text: its plan, and its state, also where its experiment is not registered."""

import collections
import itertools
from collections.abc import Sequence

from popsim._shared.text_checks import align, as_word, count_text, printable, shorten
from popsim.experiments import Column, ResultTable, Row
from popsim.sweeps.cells import DAMAGED, FINISHED, NOT_STARTED, STOPPED
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.sweeps.sweep import Sweep

__all__ = ["current_states", "plan_table", "state_text"]

MOST_ROWS = 40
MOST_CELLS = 20
LONGEST_AXIS = 1000  # characters
TRAINED = "being trained"


def current_states(opened: OpenedSweep) -> list[str]:
    """Return the state of each cell when the sweep was opened; "being trained" if a process holds it now."""
    holder = opened.folder.holder
    return [
        TRAINED if note.state != FINISHED and holder(number) else note.state
        for number, note in enumerate(opened.notes)
    ]


def state_text(opened: OpenedSweep) -> str:
    """Describe a sweep as `popsim info` prints it, also where its experiment is not registered."""
    states = current_states(opened)
    unfinished = opened.unfinished_cells
    lines = _about(opened, states)
    described = ((number, _cell_line(opened, number, states[number])) for number in unfinished)
    noted = ((number, line) for number, line in described if line != NOT_STARTED)
    named = [f"  cell {number}: {line}" for number, line in itertools.islice(noted, MOST_CELLS)]
    if named:
        lines += ["", "not finished", *named]
        lines += [f"  and {len(unfinished) - len(named)} more"] * (len(unfinished) > len(named))
    if unfinished:
        lines.append(f"To train them: {opened.folder.command('resume')}")
    if damaged := opened.cells_in(DAMAGED):
        lines.append(damaged_text(opened.folder, damaged))
    return "\n".join(map(printable, lines))


def _about(opened: OpenedSweep, states: Sequence[str]) -> list[str]:
    """Return lines on what is in the sweep, and on its cells by their state."""
    content = opened.content
    module, (first, end) = content["module"], content["seeds"]
    origin = "" if module.startswith("popsim.") else f", of the module {module}"
    axes = [f"{name}: {', '.join(map(str, values))}" for name, values in content["axes"].items()]
    codes = opened.folder.cells_by_code(opened.n_cells)
    by_code = [f"{count_text(len(cells), 'cell')} from {cells[0]} by {code}" for code, cells in codes.items()]
    rows = [
        ("sweep", str(opened.folder.path)),
        ("experiment", f"{content['experiment']}{origin}"),
        ("networks", f"{content['n_members']}, in {count_text(opened.n_cells, 'cell')}"),
        *(("axis", shorten(axis, LONGEST_AXIS)) for axis in axes),
        ("seeds", f"{first} to {end - 1}"),
        ("cells", ", ".join(f"{n} {state}" for state, n in collections.Counter(states).items())),
        *(("code", text) for text in by_code),
    ]
    warning = "cells were trained by different code of yours: they are not one experiment"
    return [*align(rows), *[warning][: len(codes)]]


def _cell_line(opened: OpenedSweep, number: int, state: str) -> str:
    """Return the state of a cell that is not finished, and why it is not."""
    note, problem = opened.notes[number], opened.problem_of(number)
    saved = f", {note.n_batches} of {note.n_planned} batches saved" if note.state == STOPPED else ""
    if state == TRAINED and (writer := opened.folder.holder(number)):
        state = f"{TRAINED} by {writer}"
    return f"{state}{saved}{f': {problem:.300}' if problem else ''}"


def damaged_text(folder: SweepFolder, damaged: Sequence[int]) -> str:
    """Say how damaged cells are trained again."""
    paths = [as_word(folder.cell(number).path) for number in damaged[:MOST_CELLS]]
    more = f" and {len(damaged) - MOST_CELLS} more" if len(damaged) > MOST_CELLS else ""
    return f"a damaged cell is trained again when its folder is removed: {' '.join(paths)}{more}"


def plan_table(sweep: Sweep) -> str:
    """Return the cells of a sweep with the number of their members, as text."""
    cells = itertools.islice(sweep.cells(), MOST_ROWS)
    rows = [Row(f"cell {cell.number}", [cell.experiment.n_members, str(cell)]) for cell in cells]
    if sweep.n_cells > MOST_ROWS:
        rows.append(Row("...", ["", f"and {sweep.n_cells - MOST_ROWS} more"]))
    rows.append(Row("all", [sweep.n_members, ""]))
    return str(ResultTable([Column("networks", digits=0), Column("what")], rows))
