"""Selection among the members of several cells: the scores of all, which whoever trains the cells gathers.

A cell of such a population is trained up to the next selection, where its process ends and returns the scores
of its members. When those of all cells are there they are written down, and the cells continue: each draws
the parents of all members from the same scores, as one ensemble would, and reads what its own inherit from
the checkpoints that the other cells had at that batch.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from popsim._shared.text_checks import count_text
from popsim.experiments.run_options import RunStopped
from popsim.store import (
    Checkpoints,
    CorruptDataError,
    MismatchError,
    lock_folder,
    read_sealed_json,
    write_sealed_json,
)
from popsim.store.checkpoints import N_SHARED
from popsim.store.files import make_folder, saving
from popsim.sweeps.opened_sweep import OpenedSweep, numbers_text
from popsim.training.population_updates.divided_population import (
    AbstractDividedPopulation,
    StoppedForSelection,
)

__all__ = ["SelectionPending"]


@dataclasses.dataclass(frozen=True)
class Selection:
    """What a selection of a population is decided by.

    - `scores`: of its members, by their places.
    - `digests`: of the checkpoints of its cells from which members inherit; empty if one was unreadable then.
    """

    scores: list[float]
    digests: list[str]


class SelectionPending(RunStopped):
    """A cell is saved at a selection of its population, which follows when all of its cells are there.

    - `scores`: of its members.
    """

    def __init__(self, path: Path, n_batches: int, scores: Sequence[float], command: str):
        super().__init__(path, n_batches)
        self.scores = [*scores]
        self.args = (
            f"{path} is saved after {count_text(n_batches, 'batch')}, and waits for the other cells of its "
            f"population. To train all of them: {command}",
        )


def read_selections(opened: OpenedSweep, cells: range) -> dict[int, Selection]:
    """Return the last few selections of a population, by the batches before which it selected."""
    path = opened.folder.selection(cells)
    if not path.exists():
        return {}
    content, expected = read_sealed_json(path), _identity(opened, cells)
    if {name: content.get(name) for name in expected} != expected:
        raise MismatchError(f"{path} must be of this population of the sweep, got that of another.")
    return {
        int(batch): Selection([*map(float, scores)], digests)
        for batch, (scores, digests) in content["selections"].items()
    }


def _identity(opened: OpenedSweep, cells: range) -> dict[str, Any]:
    return {"sweep": opened.sweep_id, "cells": [cells.start, cells.stop]}


@dataclasses.dataclass
class CellPopulation(AbstractDividedPopulation):
    """The population of a cell, of which the members of other cells are read when it selects.

    `pending` are the scores of its own members for a selection that is not decided yet.
    """

    opened: OpenedSweep
    cells: range
    pending: list[float] | None = None

    @classmethod
    def of_cell(cls, opened: OpenedSweep, number: int) -> "CellPopulation":
        """Return the population of a cell."""
        cells = opened.sweep.population_of(number)
        return cls(number - cells[0], tuple(map(opened.sweep.places_of, cells)), opened, cells)

    def gather_scores(
        self, n_batches: int, own_scores: Float[np.ndarray, " member"]
    ) -> Float[np.ndarray, " population"]:
        decided = read_selections(self.opened, self.cells)
        if n_batches in decided:
            return np.array(decided[n_batches].scores)
        if n_batches < max(decided, default=0):
            raise CorruptDataError(
                f"the selection before batch {n_batches} cannot be repeated: "
                f"{self.opened.folder.selection(self.cells)} has {numbers_text(sorted(decided))} only. "
                f"{begin_again(self.opened, self.cells)}"
            )
        self.pending = np.asarray(own_scores, float).tolist()
        raise StoppedForSelection

    def read_part(
        self, part: int, n_batches: int, forms: Mapping[str, jax.ShapeDtypeStruct]
    ) -> Mapping[str, Any]:
        checkpoints = _checkpoints_of(self.opened, self.cells[part])
        if n_batches not in (steps := checkpoints.steps()):
            is_past = n_batches < min(steps, default=0)
            why = f"removed, as its cell has had {N_SHARED} later ones" if is_past else "missing"
            raise CorruptDataError(
                f"there must be a checkpoint {checkpoints.file(n_batches)}, from which cell "
                f"{self.cells[self.part]} inherits; it is {why}. {begin_again(self.opened, self.cells)}"
            )
        checkpoint = checkpoints.restore(lambda _: forms, step=n_batches, subset=True)
        assert checkpoint is not None  # of this step there is one, or an error
        expected = read_selections(self.opened, self.cells)[n_batches].digests[part]
        if expected not in ("", checkpoint.digest):
            raise MismatchError(
                f"{checkpoints.file(n_batches)} must be the checkpoint by which its population selected, got "
                f"one that was computed again, with other bits. {begin_again(self.opened, self.cells)}"
            )
        return checkpoint.arrays


def _checkpoints_of(opened: OpenedSweep, number: int) -> Checkpoints:
    cell = opened.cell(number)
    return Checkpoints(cell.folder.checkpoints, run_id=cell.read().run_id)


def _digest(opened: OpenedSweep, number: int, n_batches: int) -> str:
    try:
        return _checkpoints_of(opened, number).check(n_batches)
    except (ValueError, OSError):  # the cell itself says so, and computes it again, as it continues
        return ""


@contextlib.contextmanager
def pending_selection(opened: OpenedSweep, population: CellPopulation | None) -> Iterator[None]:
    """Raise `SelectionPending` where a run stops because its population has a selection to decide."""
    try:
        yield
    except RunStopped as stopped:
        if population is None or population.pending is None:
            raise
        command = opened.folder.command("sweep run")
        raise SelectionPending(stopped.path, stopped.n_batches, population.pending, command) from None


def begin_again(opened: OpenedSweep, cells: range) -> str:
    """Say what to do if a population cannot continue."""
    file = opened.folder.selection(cells)
    return f"If it cannot be restored, the population begins again when {file} and its cells are removed."


@dataclasses.dataclass
class SelectionRounds:
    """Gathers the scores of cells that have come to a selection, and says which cells can continue."""

    opened: OpenedSweep
    waiting: dict[int, tuple[int, Sequence[float]]] = dataclasses.field(default_factory=dict)

    def add(self, number: int, n_batches: int, scores: Sequence[float]) -> list[int]:
        """Take the scores of a cell, and return the cells that can continue: none, or all of its population.

        A selection that is decided stays as it is: the cell continues alone. The scores of a population are
        on disk before any of its cells continues.
        """
        sweep, cells = self.opened.sweep, self.opened.sweep.population_of(number)
        decided = read_selections(self.opened, cells)
        if n_batches in decided:  # which a cell on another machine may see later
            return [number]
        self.waiting[number] = n_batches, scores
        if any(self.waiting.get(cell, (None,))[0] != n_batches for cell in cells):
            return []
        of_places = np.empty(sum(sweep.places_of(cell).size for cell in cells))
        for cell in cells:
            of_places[sweep.places_of(cell)] = self.waiting.pop(cell)[1]
        digests = [_digest(self.opened, cell, n_batches) for cell in cells]
        decided[n_batches] = Selection(of_places.tolist(), digests)
        entries = {
            str(batch): [[score if np.isfinite(score) else str(score) for score in one.scores], one.digests]
            for batch, one in sorted(decided.items())[-N_SHARED:]
        }
        path = self.opened.folder.selection(cells)
        write_sealed_json(path, {**_identity(self.opened, cells), "selections": entries})
        return [*cells]

    def reasons_to_wait(self) -> dict[int, str]:
        """Return why the cells that wait now cannot continue, by number."""
        reasons = {}
        for number, (n_batches, _) in self.waiting.items():
            cells = self.opened.sweep.population_of(number)
            missing = [cell for cell in cells if cell not in self.waiting]
            lost = all(self.opened.folder.cell(cell).is_finished for cell in missing)
            reasons[number] = f"it waits at the selection before batch {n_batches}, " + (
                f"whose scores are lost. {begin_again(self.opened, cells)}"
                if lost
                else f"which others of its population have not reached: {numbers_text(missing)}"
            )
        return reasons


@contextlib.contextmanager
def selecting(opened: OpenedSweep, *, without_lock: bool) -> Iterator[SelectionRounds]:
    """Return what gathers the scores of cells; one process at a time does so for a sweep that selects."""
    if not opened.sweep.selects_across_cells:
        yield SelectionRounds(opened)
        return
    folder = opened.folder.selections
    with saving(folder):
        make_folder(folder)
    with lock_folder(folder, without_lock=without_lock):
        yield SelectionRounds(opened)


def check_no_selection(opened: OpenedSweep, argument: str) -> None:
    """Raise `ValueError` if cells select among one another, and so cannot be trained each by itself."""
    if opened.sweep.selects_across_cells:
        raise ValueError(
            f"`{argument}` must be of a sweep whose cells are trained each by itself, and those of "
            f"{opened.folder.path} select among one another. To train all of them: "
            f"{opened.folder.command('sweep run')}, with --workers here or --scheduler on a Dask cluster "
            "(pip install popsim[dask]); or make it with a larger --members-per-cell, so that one cell holds "
            "a population."
        )
