"""Train a cell of a sweep, up to the next selection if its members select among those of other cells.

A cell of such a population ends at a selection with a file of the scores of its members. When those of all
its cells are there, each can continue: it draws the parents of all members from the same scores, as one
ensemble would, and reads what its own inherit from the checkpoints that the other cells had at that batch.
"""

import contextlib
import dataclasses
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from popsim._shared.checks import warn_caller
from popsim._shared.plain_values import plain_value
from popsim._shared.text_checks import count_text, one_line
from popsim._shared.user_code import different_names
from popsim.experiments import Run, RunStopped, run_or_resume
from popsim.experiments.run_options import CODE, RunOptions, check_flags, code_of_experiment
from popsim.store import (
    Checkpoints,
    CorruptDataError,
    MismatchError,
    RunFolder,
    SaveError,
    lock_folder,
    read_sealed_json,
    write_json,
    write_sealed_json,
)
from popsim.store.checkpoints import N_SHARED
from popsim.store.files import make_folder, raise_save_errors
from popsim.sweeps.opened_sweep import OpenedSweep, numbers_text, read_sweep
from popsim.training.population_updates.divided_population import (
    AbstractDividedPopulation,
    StoppedForSelection,
)
from popsim.version import __version__

__all__ = ["SelectionPending", "run_cell"]


class SelectionPending(RunStopped):
    """A cell is saved at a selection of its population, which follows when all of its cells are there."""

    def __init__(self, stopped: RunStopped, command: str):
        super().__init__(stopped.path, stopped.n_batches)
        self.args = (
            f"{stopped.path} is saved after {count_text(self.n_batches, 'batch')}, and waits for the other "
            f"cells of its population. To train all of them: {command}",
        )


def run_cell(path: str | Path, number: int, *, keeps_devices: bool = False, **options: Any) -> Run:
    """Train a cell of a sweep, or continue it; a finished one is returned as it is.

    Only the folder of the cell is written, its scores at a selection, and the file that says why it failed.
    Where its members select among those of other cells it is trained up to the next selection; `run_sweep`
    trains all in turn.

    **Arguments:**

    - `path`: the folder of the sweep.
    - `number`: the number of the cell.
    - `keeps_devices`: whether a cell that has begun continues with as many of the devices as before, for the
        same bits.
    - `options`: how it is trained, those of `RunOptions`; `quiet` is True by default.

    **Returns:** the finished run.

    **Raises:** `ValueError` if there is no such sweep or cell; `MismatchError` if the cell is not what its
    plan says; `FolderLockedError` if another process trains it; `RunStopped` if `stop` returned True,
    `SelectionPending` if it has come to a selection; otherwise as `run_or_resume`.
    """
    opened = read_sweep(path)
    sweep, cell = opened.sweep, opened.cell(plain_value("number", number))
    run = cell.read() if cell.is_started else None  # before its folder is made, or locked
    _warn_of_changes(opened, begins=run is None)
    population = CellPopulation(opened, cell.number) if sweep.selects_across_cells else None
    now = RunOptions(**{"quiet": True, **options, "population": population})
    if keeps_devices and now.devices is not None and run is not None:
        now = dataclasses.replace(now, devices=now.devices[: run.content["devices"]])
    place = RunFolder.make(cell.folder.path).path
    with lock_folder(place, without_lock=now.without_lock), _record_failure(opened, cell.number):
        try:
            return run_or_resume(
                cell.experiment,
                place,
                recording=sweep.recording,
                member_batch_size=sweep.member_batch_size,
                draws_figures=False,
                part_of=cell.part_of,
                **vars(now),
            )
        except RunStopped as stopped:
            if population is None or population.pending is None:
                raise
            population.write_pending()
            raise SelectionPending(stopped, opened.folder.command("sweep run")) from None


def _warn_of_changes(opened: OpenedSweep, *, begins: bool) -> None:
    """Warn if a cell may be trained under other flags than the sweep says, or begins with other code."""
    source = opened.folder.description
    if unknown := check_flags(opened.content, source):
        warn_caller(f"{source} does not tell the {', '.join(unknown)} of JAX: cells may have other numbers.")
    if not begins:
        return
    if different := different_names(opened.content[CODE], code_of_experiment(opened.sweep.experiment)):
        names = ", ".join(f"`{name}`" for name in different[:5]) + " and others" * (len(different) > 5)
        warn_caller(f"the sweep {source.parent} was made with other code than this one: {names} differ.")
    if (made_by := opened.content.get("popsim")) != __version__:
        warn_caller(f"the sweep {source.parent} was made by popsim {made_by}, this is {__version__}.")


@contextlib.contextmanager
def _record_failure(opened: OpenedSweep, number: int) -> Iterator[None]:
    """Write down why a cell fails within the context, if that can be written, and else that it did not."""
    file = opened.folder.failure(number)
    try:
        yield
    except RunStopped:
        raise
    except Exception as error:
        text = one_line(f"{type(error).__name__}: {error}")[:1000]
        failure = {"error": text, "host": socket.gethostname(), "seconds_since_1970": time.time()}
        with contextlib.suppress(OSError, SaveError):
            make_folder(file.parent)
            write_json(file, failure)
        raise
    file.unlink(missing_ok=True)  # of an earlier attempt


def read_selections(opened: OpenedSweep, number: int) -> dict[int, list[float]]:
    """Return the scores with which a cell has come to its last selections, by the batches before these."""
    path = opened.folder.selection(number)
    if not path.exists():
        return {}
    content = read_sealed_json(path)
    if content["part_of"] != opened.cell(number).part_of:
        raise MismatchError(f"{path} must be of this cell of the sweep, got that of another.")
    return {int(batch): [*map(float, scores)] for batch, scores in content["selections"].items()}


def cells_to_continue(opened: OpenedSweep, waiting: Collection[int], number: int) -> list[int]:
    """Return those of the waiting cells of the population of a cell that have the scores of all cells."""
    selections = {cell: read_selections(opened, cell) for cell in opened.sweep.population_of(number)}
    return [
        cell
        for cell, own in selections.items()
        if cell in waiting and all(max(own, default=0) in other for other in selections.values())
    ]


def is_at_selection(opened: OpenedSweep, number: int) -> bool:
    """Whether the last checkpoint of a cell is that with which it came to a selection."""
    steps = Checkpoints(opened.folder.cell(number).checkpoints).steps()
    return bool(steps) and steps[-1] in read_selections(opened, number)


def waiting_reason(opened: OpenedSweep, number: int) -> str:
    """Say why a cell that has come to a selection cannot continue."""
    batch, cells = max(read_selections(opened, number), default=0), opened.sweep.population_of(number)
    missing = numbers_text([cell for cell in cells if batch not in read_selections(opened, cell)])
    return f"it waits at a selection for the scores of {missing}. {restart_advice(opened, cells)}"


def restart_advice(opened: OpenedSweep, cells: range) -> str:
    """Say what to do if the population of some cells cannot continue."""
    return (
        f"If it cannot be restored, the population begins again when its cells, {numbers_text(cells)}, and "
        f"their files in {opened.folder.selections} are removed."
    )


class CellPopulation(AbstractDividedPopulation):
    """The population of a cell, of which the members of other cells are read when it selects.

    `pending` are the batches and the scores of its own members for a selection to which not all have come.
    """

    def __init__(self, opened: OpenedSweep, number: int):
        self.opened, self.number, self.cells = opened, number, opened.sweep.population_of(number)
        super().__init__(number - self.cells[0], tuple(map(opened.sweep.places_of, self.cells)))
        self.pending: tuple[int, list[float]] | None = None

    def gather_scores(
        self, n_batches: int, own_scores: Float[np.ndarray, " member"]
    ) -> Float[np.ndarray, " population"]:
        selections = [read_selections(self.opened, cell) for cell in self.cells]
        if all(n_batches in scores for scores in selections):
            scores = np.empty(self.size)
            for places, own in zip(self.places, selections, strict=True):
                scores[places] = own[n_batches]
            return scores
        if any(n_batches < min(scores, default=0) for scores in selections):
            raise CorruptDataError(
                f"the selection of cell {self.number} before batch {n_batches} cannot be repeated: "
                f"{self.opened.folder.selections} has later ones only. "
                f"{restart_advice(self.opened, self.cells)}"
            )
        self.pending = n_batches, np.asarray(own_scores, float).tolist()
        raise StoppedForSelection

    def write_pending(self) -> None:
        """Write down the scores with which the cell has come to a selection; its run must be locked."""
        assert self.pending is not None
        n_batches, scores = self.pending
        # An entry stays: others may have selected by it.
        selections = {n_batches: scores, **read_selections(self.opened, self.number)}
        entries = {
            str(batch): [score if np.isfinite(score) else str(score) for score in own]
            for batch, own in sorted(selections.items())[-N_SHARED:]
        }
        with raise_save_errors(self.opened.folder.selections):
            make_folder(self.opened.folder.selections)
        content = {"part_of": self.opened.cell(self.number).part_of, "selections": entries}
        write_sealed_json(self.opened.folder.selection(self.number), content)

    def read_part(
        self, part: int, n_batches: int, forms: Mapping[str, jax.ShapeDtypeStruct]
    ) -> Mapping[str, Any]:
        cell = self.opened.cell(self.cells[part])
        checkpoints = Checkpoints(cell.folder.checkpoints, run_id=cell.read().run_id)
        if n_batches not in checkpoints.steps():
            raise CorruptDataError(
                f"there must be a checkpoint {checkpoints.file(n_batches)}, from which cell {self.number} "
                f"inherits; it is missing. {restart_advice(self.opened, self.cells)}"
            )
        checkpoint = checkpoints.restore(lambda _: forms, step=n_batches, subset=True)
        assert checkpoint is not None  # of this step there is one, or an error
        return checkpoint.arrays


def check_no_selection(opened: OpenedSweep, argument: str) -> None:
    """Raise `ValueError` if cells select among one another, and so cannot be trained each by itself."""
    if opened.sweep.selects_across_cells:
        raise ValueError(
            f"`{argument}` must be of a sweep whose cells are trained each by itself, and those of "
            f"{opened.folder.path} select among one another. To train all of them: "
            f"{opened.folder.command('sweep run')}, with --workers here or --scheduler on a Dask cluster; or "
            "make it with a larger --members-per-cell, so that one cell holds a population."
        )
