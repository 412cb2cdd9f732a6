"""Populations that are divided over cells, whose members select among one another through files."""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from popsim.experiments.run_experiment import RunStopped
from popsim.store.identity import lock_holder
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.sweep import Sweep
from popsim.training import SharedPopulation

__all__ = ["WaitsForOthers"]

SECONDS_FOR_OTHERS = 60.0  # to wait for a cell that nobody trains, which may be about to start elsewhere


class WaitsForOthers(RunStopped):
    """A cell has come to a selection before other cells of its population, which nobody trains.

    Its progress is saved, and it goes on when they have come to it, too.

    **Arguments:**

    - `path`, `n_batches`: see `RunStopped`.
    - `others`: the numbers of the cells that it waits for.
    - `command`: the command that trains them all.
    """

    def __init__(self, path: Path, n_batches: int, others: Sequence[int], command: str):
        super().__init__(path, n_batches)
        self.args = (
            f"{path} is saved after {n_batches} batches, and waits for {cells_text(others)} of its "
            f"population: {command} trains all in turn.",
        )


def cells_text(numbers: Sequence[int]) -> str:
    """Return some cells in words, such as "cells 3, 4"."""
    named = ", ".join(map(str, numbers[:20])) + (" ..." if len(numbers) > 20 else "")
    return f"{'cell' if len(numbers) == 1 else 'cells'} {named}"


@dataclasses.dataclass
class Waiting:
    """Decides how long a training waits for others of its population, and remembers for which it did not.

    - `folder`: the folder of the sweep.
    - `cells`: the cells of the population.
    - `patience`: for how many seconds it waits for a cell that no process trains.
    """

    folder: SweepFolder
    cells: range
    patience: float
    given_up: tuple[int, ...] = ()
    _untended_since: dict[int, float] = dataclasses.field(default_factory=dict)

    def __call__(self, missing: Sequence[int]) -> bool:
        """Whether to go on waiting for the trainings of these numbers."""
        before, now = self._untended_since, time.monotonic()
        untended = [self.cells[part] for part in missing if not self.is_tended(self.cells[part])]
        self._untended_since = {cell: before.get(cell, now) for cell in untended}
        self.given_up = tuple(
            cell for cell, since in self._untended_since.items() if now - since > self.patience
        )
        return not self.given_up

    def is_tended(self, cell: int) -> bool:
        """Whether a process trains a cell."""
        return lock_holder(self.folder.cell(cell).path) is not None


def shared_population(
    folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int, waiting: Waiting
) -> SharedPopulation | None:
    """Return the population of a cell; None if it has no others to select with."""
    if not sweep.selects_across_cells:
        return None
    cells = sweep.population_of(number)
    return SharedPopulation(
        folder.selections(cells),
        number - cells[0],
        tuple(map(sweep.places_of, cells)),
        run_id=sweep_id,
        keeps_waiting=waiting,
    )


def cells_that_can_go_on(
    folder: SweepFolder, sweep: Sweep, sweep_id: str, wanted: Iterable[int]
) -> Iterator[int]:
    """Yield the cells that nobody trains and that wait for no other, those first that are furthest behind."""
    of_populations: dict[range, list[int]] = {}
    for number in wanted:
        of_populations.setdefault(sweep.population_of(number), []).append(number)
    for cells, own in of_populations.items():
        waiting = Waiting(folder, cells, 0.0)
        population = shared_population(folder, sweep, sweep_id, cells[0], waiting)
        newest = [-1] if population is None else [population.newest(part) for part in range(len(cells))]
        for number in sorted(own, key=lambda number: newest[number - cells[0]]):
            if newest[number - cells[0]] <= min(newest) and not waiting.is_tended(number):
                yield number
