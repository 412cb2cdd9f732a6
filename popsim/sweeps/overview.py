"""A sweep as text: its plan, its results, and its state, also where its experiment is not registered."""

import collections
import csv
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from popsim._shared.text_checks import align, as_cell, as_word, count_text, one_line, printable, shorten
from popsim.experiments import Column, ResultTable, Row, verify_run
from popsim.experiments.run_info import RunInfo
from popsim.store import CorruptDataError
from popsim.sweeps.cell_notes import DAMAGED, FINISHED, FIRST_BATCHES, LOSSES, METRIC, NOT_STARTED, STOPPED
from popsim.sweeps.cells import read_cell_description
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.sweeps.sweep import Sweep

__all__ = ["SweepOverview", "is_summary", "overview_of", "plan_table", "read_sweep_overview", "summary_csv"]

MOST_ROWS = 40
MOST_CELLS = 20
LONGEST_AXIS = 1000  # characters
TRAINED = "being trained"
_AFTER_AXES = ["seed", "cell", "place", "state", "batches", *FIRST_BATCHES, *LOSSES]
_LONGEST_HEADER = 2**20


@dataclasses.dataclass(frozen=True)
class SweepOverview:
    """The state of each cell of a sweep, what is wrong with damaged ones, and details of unfinished ones."""

    folder: SweepFolder
    content: Mapping[str, Any]
    states: Sequence[str]
    problems: Mapping[int, str]
    details: Mapping[int, str]

    def __str__(self) -> str:
        """Describe the sweep as `popsim info` prints it."""
        lines = self._about()
        unfinished = [number for number, state in enumerate(self.states) if state != FINISHED]
        listed = [number for number in unfinished if self._line(number) != NOT_STARTED][:MOST_CELLS]
        if listed:
            lines += ["", "not finished", *(f"  cell {number}: {self._line(number)}" for number in listed)]
            lines += [f"  and {len(unfinished) - len(listed)} more"] * (len(unfinished) > len(listed))
        if unfinished:
            lines.append(f"To train them: {self.folder.command('resume')}")
        if damaged := [number for number in unfinished if self.states[number] == DAMAGED]:
            lines.append(damaged_text(self.folder, damaged))
        return "\n".join(map(printable, lines))

    def _about(self) -> list[str]:
        """Return lines on what is in the sweep, and on its cells by their state."""
        content, n_cells = self.content, len(self.states)
        module, (first, end) = content["module"], content["seeds"]
        origin = "" if module.startswith("popsim.") else f", of the module {module}"
        axes = [f"{name}: {', '.join(map(str, values))}" for name, values in content["axes"].items()]
        codes = self.folder.cells_by_code(n_cells)
        by_code = [
            f"{count_text(len(cells), 'cell')} from {cells[0]} by {code}" for code, cells in codes.items()
        ]
        rows = [
            ("sweep", str(self.folder.path)),
            ("experiment", f"{content['experiment']}{origin}"),
            ("networks", f"{content['n_members']}, in {count_text(n_cells, 'cell')}"),
            *(("axis", shorten(axis, LONGEST_AXIS)) for axis in axes),
            ("seeds", f"{first} to {end - 1}"),
            ("cells", ", ".join(f"{n} {state}" for state, n in collections.Counter(self.states).items())),
            *(("code", text) for text in by_code),
        ]
        warning = "cells were trained by different code of yours: they are not one experiment"
        return [*align(rows), *[warning][: len(codes)]]

    def _line(self, number: int) -> str:
        return f"{self.states[number]}{self.details.get(number, '')}"

    def verify(self) -> dict[int, str]:
        """Check the cells that are finished or stopped as `verify_run` does, and return what is damaged."""
        damaged = dict(self.problems)
        for number, state in enumerate(self.states):
            if state in (FINISHED, STOPPED) and (damage := verify_run(self.folder.cell(number).path)):
                damaged[number] = "; ".join(f"{file}: {problem}" for file, problem in damage.items())
        return damaged


def overview_of(opened: OpenedSweep) -> SweepOverview:
    """Return the state of a sweep that is opened."""
    states, details = [note.state for note in opened.notes], {}
    for number in opened.unfinished_cells:
        note, problem, writer = opened.notes[number], opened.problem_of(number), opened.folder.holder(number)
        n_batches = opened.sweep.n_batches_of(number)
        details[number] = _details(note.state, writer, note.n_batches, n_batches, problem)
        states[number] = TRAINED if writer else note.state
    problems = {number: opened.problem_of(number) for number in opened.cells_in(DAMAGED)}
    return SweepOverview(opened.folder, opened.content, states, problems, details)


def _details(state: str, writer: str | None, n_saved: int, n_batches: int | None, problem: str) -> str:
    saved = f", {n_saved} of {n_batches} batches saved" if state == STOPPED else ""
    return f"{f' by {writer}' if writer else ''}{saved}{f': {problem:.300}' if problem else ''}"


def read_sweep_overview(folder: SweepFolder) -> SweepOverview:
    """Read the state of the cells of a sweep without its experiment, from the folders of the cells alone."""
    content = folder.read_plain()
    states, problems, details = [], {}, {}
    nothing: tuple[str | None, int, int | None] = (None, 0, None)
    for number in range(content["n_cells"]):
        state, saved = NOT_STARTED, nothing
        try:
            if folder.cell(number).is_started:
                part_of = {"sweep": content["sweep_id"], "cell": number}
                info = RunInfo(read_cell_description(folder.cell(number), part_of))
                if info.history_damage:
                    raise CorruptDataError(info.history_damage)
                state = FINISHED
                if not info.is_finished:
                    saved = (info.writer, info.n_saved, info.n_batches)
                    state = TRAINED if saved[0] else STOPPED
        except (ValueError, OSError) as error:
            state, saved, problems[number] = DAMAGED, nothing, one_line(error)
        states.append(state)
        if state != FINISHED:
            problem = problems.get(number) or folder.failure_text(number)
            details[number] = _details(STOPPED if state == TRAINED else state, *saved, problem)
    return SweepOverview(folder, content, states, problems, details)


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


def summary_csv(opened: OpenedSweep) -> str:
    """Return `OpenedSweep.summary` as CSV, in which no text of a setting is a formula."""
    table = opened.summary()
    texts = table.select_dtypes(exclude="number")
    return table.assign(**{name: texts[name].map(as_cell) for name in texts}).to_csv()


def is_summary(path: Path) -> bool:
    """Whether a file begins with the columns of `OpenedSweep.summary` and no others, as CSV."""
    try:
        with path.open("rb") as file:
            columns = next(csv.reader([file.readline(_LONGEST_HEADER).decode()]), [])
    except (OSError, ValueError):
        return False
    end = columns.index("seed") + len(_AFTER_AXES) if "seed" in columns else 0
    is_known = columns[:1] == ["member"] and columns[end - len(_AFTER_AXES) : end] == _AFTER_AXES
    return is_known and all(name.startswith(METRIC) for name in columns[end:])
