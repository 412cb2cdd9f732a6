"""Populations that are divided over cells, whose members select among one another through files."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from popsim._shared.text_checks import count_text
from popsim.experiments.run_options import RunStopped
from popsim.sweeps.cells import DescribedSweep
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.opened_sweep import numbers_text
from popsim.training import SharedPopulation

__all__ = ["SelectionPending"]

SECONDS_BETWEEN_LOOKS = 1.0  # for a cell that can continue
SECONDS_FOR_OTHERS = 60.0  # to wait for a cell that nobody trains, which may be about to start elsewhere


class SelectionPending(RunStopped):
    """A cell has reached a selection before other cells of its population, which nobody trains.

    Its progress is saved, and it continues when they have reached it, too.
    """

    def __init__(self, path: Path, n_batches: int, cells: Sequence[int], command: str):
        super().__init__(path, n_batches)
        self.args = (
            f"{path} is saved after {count_text(n_batches, 'batch')}, and waits for {cells_text(cells)} "
            f"of its population. To train all in turn: {command}",
        )


def cells_text(numbers: Sequence[int]) -> str:
    """Return some cells in words, such as "cells 3, 4"."""
    return f"{'cell' if len(numbers) == 1 else 'cells'} {numbers_text(numbers)}"


@dataclasses.dataclass
class Waiting:
    """Decides how long a training waits for others of its population, and remembers for which it did not."""

    folder: SweepFolder
    cells: range
    patience: float
    given_up: tuple[int, ...] = ()
    _untended_since: dict[int, float] = dataclasses.field(default_factory=dict)

    def __call__(self, missing: Sequence[int]) -> bool:
        """Whether to keep waiting for the trainings of these numbers."""
        before, now = self._untended_since, time.monotonic()
        untended = [self.cells[part] for part in missing if not self.folder.holder(self.cells[part])]
        # A cell that somebody began to train is dropped, so its time counts anew if that process ends.
        self._untended_since = {cell: before.get(cell, now) for cell in untended}
        self.given_up = tuple(
            cell for cell, since in self._untended_since.items() if now - since > self.patience
        )
        return not self.given_up


def cells_in_turn(
    described: DescribedSweep,
    numbers: Sequence[int],
    failed: dict[int, str],
    locked_cells: set[int],
    stop: Callable[[], bool] | None,
) -> Iterator[int]:
    """Yield cells that select among one another, each when it can continue, until all of them are finished.

    Those of `numbers` that have a summary, which are damaged, are yielded once. Cells that wait for others
    that no process trains are added to those that `failed`. The caller adds a cell that another process was
    found to train to `locked_cells`.
    """
    folder, sweep = described.folder, described.sweep
    needed = {cell for number in numbers for cell in sweep.population_of(number)}
    n_looks_in_vain = 0
    yield from (cell for cell in numbers if folder.cell(cell).is_finished)
    while unfinished := [
        cell for cell in numbers if cell not in failed and not folder.cell(cell).is_finished
    ]:
        # Asked first: a cell that is let go before the search below counts as trained for one more look.
        is_one_tended = any(map(folder.holder, needed))
        number = next(_ready_cells(described, unfinished), None)
        if number is not None:
            n_looks_in_vain = 0
            # The caller trains the cell while this generator is suspended, and adds it here if it was locked.
            locked_cells.clear()
            yield number
            if not locked_cells:
                continue
        n_looks_in_vain = 0 if is_one_tended else n_looks_in_vain + 1
        if n_looks_in_vain == 2:  # between the two questions of one look, a process may have continued
            failed |= {number: _reason_to_wait(described, number) for number in unfinished}
            return
        if stop is not None and stop():
            raise RunStopped(folder.path, 0)
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _reason_to_wait(described: DescribedSweep, number: int) -> str:
    """Return a message on what a cell waits for in vain."""
    folder, cells = described.folder, described.sweep.population_of(number)
    other_cells = [cell for cell in cells if cell != number]
    if not all(folder.cell(cell).is_finished for cell in other_cells):
        return "it waits for other cells of its population"
    return (
        f"what {cells_text(other_cells)} of its population, which are finished, offered in "
        f"{folder.selections(cells)} is missing: if it cannot be restored, remove that folder and all of "
        "these cells, which then begin again"
    )


def _ready_cells(described: DescribedSweep, unfinished: Iterable[int]) -> Iterator[int]:
    """Yield the cells that nobody trains and that wait for no other: those that are furthest behind."""
    of_populations: dict[range, list[int]] = {}
    for number in unfinished:
        of_populations.setdefault(described.sweep.population_of(number), []).append(number)
    for cells, candidates in of_populations.items():
        population = described.cell(cells[0]).shared_population()
        newest = [_newest_of(population, part) for part in range(len(cells))]
        furthest_behind = min((batch for batch in newest if batch is not None), default=None)
        for number in candidates:
            # Those ahead wait for these. Damaged ones (None) are tried as well, so that their error is
            # reported.
            is_behind = newest[number - cells[0]] in (None, furthest_behind)
            if is_behind and not described.folder.holder(number):
                yield number


def _newest_of(population: SharedPopulation, part: int) -> int | None:
    """Return the last selection to which a training has come; None if that is damaged, as it will say."""
    try:
        return population.newest_selection(part)
    except ValueError:
        return None
