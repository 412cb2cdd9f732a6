"""The state of a sweep whose experiment is not registered, without importing a user's module."""

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from popsim._shared.text_checks import one_line, printable
from popsim.experiments import verify_run
from popsim.experiments.run_info import RunInfo
from popsim.store import CorruptDataError
from popsim.sweeps.cells import read_cell_description
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.tables import overview

__all__ = ["SweepOverview", "read_sweep_overview"]

MOST_LINES = 20


@dataclasses.dataclass(frozen=True)
class SweepOverview:
    """The state of the cells of a sweep, from `sweep.json` and the folders of the cells alone.

    - `folder`: the folder.
    - `described`: the content of `sweep.json`.
    - `states`: for each cell "not started", "stopped", "being trained", "damaged" or "finished".
    - `problems`: what is wrong with damaged cells.
    """

    folder: SweepFolder
    described: Mapping[str, Any]
    states: tuple[str, ...]
    problems: Mapping[int, str]

    def __str__(self) -> str:
        """Describe the sweep as `popsim info` prints it."""
        counts = collections.Counter(self.states)
        lines = overview(self.folder, self.described, counts)
        begun = [
            number for number, state in enumerate(self.states) if state not in ("not started", "finished")
        ]
        if begun:
            lines += ["", "not finished", *map(self._line, begun[:MOST_LINES])]
        if len(begun) > MOST_LINES:
            lines.append(f"  and {len(begun) - MOST_LINES} more")
        if counts["finished"] < len(self.states):
            lines.append(f"To train them: {self.folder.command('resume')}")
        return "\n".join(map(printable, lines))

    def _line(self, number: int) -> str:
        problem = self.problems.get(number, "")
        return f"  cell {number}: {self.states[number]}{f': {problem:.300}' if problem else ''}"

    def verify(self) -> dict[int, str]:
        """Check the cells that are finished or stopped as `verify_run` does, and return what is damaged."""
        damaged = dict(self.problems)
        for number, state in enumerate(self.states):
            if state in ("finished", "stopped") and (damage := verify_run(self.folder.cell(number).path)):
                damaged[number] = "; ".join(f"{file}: {problem}" for file, problem in damage.items())
        return damaged


def read_sweep_overview(folder: SweepFolder) -> SweepOverview:
    """Read the state of the cells of a sweep without its experiment.

    **Raises:** as `SweepFolder.read_plain`.
    """
    described = folder.read_plain()
    problems: dict[int, str] = {}
    states = []
    for number in range(described["n_cells"]):
        try:
            states.append(_state(folder, described["sweep_id"], number))
        except (ValueError, OSError) as error:
            problems[number] = one_line(error)
            states.append("damaged")
    return SweepOverview(folder, described, tuple(states), problems)


def _state(folder: SweepFolder, sweep_id: str, number: int) -> str:
    """Return the state of a cell; raises what its parts raise if they are damaged."""
    cell = folder.cell(number)
    if not cell.is_started:
        return "not started"
    info = RunInfo(read_cell_description(cell, {"sweep": sweep_id, "cell": number}))
    if info.history_damage:
        raise CorruptDataError(info.history_damage)
    if info.is_finished:
        return "finished"
    return "being trained" if info.writer else "stopped"
