"""The plan and the state of a sweep as text."""

import csv
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from popsim._shared.text_checks import align, as_cell, as_word, count_text, printable, shorten
from popsim.experiments import Column, ResultTable, Row
from popsim.sweeps._summary_columns import METRIC
from popsim.sweeps.folder import SweepFolder, describe_sweep
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.sweeps.sweep import Sweep

__all__ = ["is_summary", "plan_table", "summary_csv", "sweep_table"]

MOST_ROWS = 40
MOST_CELLS = 20
LONGEST_AXIS = 1000  # characters
TRAINED = "being trained"


def plan_table(sweep: Sweep) -> str:
    """Return the cells of a sweep with the number of their members, as text."""
    cells = itertools.islice(sweep.cells(), MOST_ROWS)
    rows = [Row(f"cell {cell.number}", [cell.experiment.n_members, str(cell)]) for cell in cells]
    if sweep.n_cells > MOST_ROWS:
        rows.append(Row("...", ["", f"and {sweep.n_cells - MOST_ROWS} more"]))
    rows.append(Row("all", [sweep.n_members, ""]))
    return str(ResultTable([Column("networks", digits=0), Column("what")], rows))


def sweep_table(opened: OpenedSweep) -> str:
    """Return the axes of a sweep, how many cells are in each state, and the cells that are not finished."""
    sweep, counts = opened.sweep, {**opened.counts, TRAINED: 0}
    for number in opened.unfinished_cells:
        if opened.folder.holder(number):
            counts[opened.state_of(number)] -= 1
            counts[TRAINED] += 1
    lines = overview(opened.folder, {**describe_sweep(sweep), "n_members": sweep.n_members}, counts)
    unfinished = opened.unfinished_cells
    numbers = [number for number in unfinished if _is_listed(opened, number)]
    numbers = (numbers or unfinished)[:MOST_CELLS]
    if numbers:
        lines += ["", "not finished", *(_line(opened, number) for number in numbers)]
        if len(unfinished) > len(numbers):
            lines.append(f"  and {len(unfinished) - len(numbers)} more")
        lines.append(f"To train them: {opened.folder.command('resume')}")
    if damaged := opened.cells_in("damaged"):
        lines.append(damaged_text(opened.folder, damaged))
    return "\n".join(map(printable, lines))


def overview(folder: SweepFolder, described: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """Return lines on what is in a sweep, as `sweep.json` describes it, and on its cells by their state."""
    module, (first, end) = described["module"], described["seeds"]
    origin = "" if module.startswith("popsim.") else f", of the module {module}"
    rows = [
        ("sweep", str(folder.path)),
        ("experiment", f"{described['experiment']}{origin}"),
        ("networks", f"{described['n_members']}, in {count_text(sum(counts.values()), 'cell')}"),
        *(
            ("axis", shorten(f"{name}: {', '.join(map(str, values))}", LONGEST_AXIS))
            for name, values in described["axes"].items()
        ),
        ("seeds", f"{first} to {end - 1}"),
        ("cells", ", ".join(f"{n} {state}" for state, n in counts.items() if n)),
    ]
    codes = folder.cells_by_code(sum(counts.values()))
    rows += [
        ("code", f"{count_text(len(numbers), 'cell')} from {numbers[0]} by code {code}")
        for code, numbers in codes.items()
    ]
    warning = ["cells were trained by different code of yours: they are not one experiment"] if codes else []
    return [*align(rows), *warning]


def damaged_text(folder: SweepFolder, damaged: Sequence[int]) -> str:
    """Say how damaged cells are trained again."""
    paths = [as_word(folder.cell(number).path) for number in damaged[:MOST_CELLS]]
    more = f" and {len(damaged) - MOST_CELLS} more" if len(damaged) > MOST_CELLS else ""
    return f"a damaged cell is trained again when its folder is removed: {' '.join(paths)}{more}"


def _is_listed(opened: OpenedSweep, number: int) -> bool:
    """Whether there is more to say of a cell than that it is not started."""
    return opened.state_of(number) != "not started" or opened.folder.failure(number).exists()


def _line(opened: OpenedSweep, number: int) -> str:
    state, problem = opened.state_of(number), opened.problem_of(number)
    writer = opened.folder.holder(number)
    status = f"{TRAINED} by {writer}" if writer else state
    n_batches = opened.sweep.cell(number).experiment.n_batches
    saved = f", {opened.index.n_batches[number]} of {n_batches} batches saved" if state == "stopped" else ""
    return f"  cell {number}: {status}{saved}{f': {problem}' if problem else ''}"


_AFTER_AXES = ["seed", "cell", "place", "state", "batches", "frozen_from", "stopped_from"]
_AFTER_AXES += ["training_loss", "validation_loss"]
_LONGEST_HEADER = 2**20


def summary_csv(opened: OpenedSweep) -> str:
    """Return `OpenedSweep.summary` as CSV, in which no text of a setting is a formula."""
    table = opened.summary()
    texts = table.select_dtypes(exclude="number")
    return table.assign(**{name: texts[name].map(as_cell) for name in texts}).to_csv()


def is_summary(path: Path) -> bool:
    """Whether a file begins with the columns of `OpenedSweep.summary` and no others, as CSV."""
    try:
        with path.open("rb") as file:
            header = file.readline(_LONGEST_HEADER).decode()
    except (OSError, ValueError):
        return False
    columns = next(csv.reader([header]), [])
    n_axes = columns.index("seed") if "seed" in columns else 0
    figures = columns[n_axes + len(_AFTER_AXES) :]
    return (
        columns[:1] == ["member"]
        and columns[n_axes : n_axes + len(_AFTER_AXES)] == _AFTER_AXES
        and all(name.startswith(METRIC) for name in figures)
    )
