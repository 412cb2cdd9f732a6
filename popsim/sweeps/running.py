"""Train the cells of a sweep that are missing: in this process, in others on this machine, or on Dask."""

import contextlib
import dataclasses
import errno
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popsim._shared.checks import as_parts, check_positive_int
from popsim._shared.text_checks import count_text, one_line
from popsim.experiments import Run, RunStopped
from popsim.experiments.run_options import RunOptions
from popsim.experiments.running import finish_run
from popsim.store import lock_folder
from popsim.store.files import saving
from popsim.store.identity import FolderLockedError
from popsim.sweeps.cell_process import CellTask, default_workers, option_words
from popsim.sweeps.cells import DAMAGED, FINISHED
from popsim.sweeps.executors import CellOutcome, CellsFailed, Executor, in_order, on_this_machine
from popsim.sweeps.folder import modules_of
from popsim.sweeps.making import complete_folder
from popsim.sweeps.opened_sweep import OpenedSweep, numbers_text, open_sweep
from popsim.sweeps.overview import damaged_text
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.selection import SelectionRounds, selecting

__all__ = ["run_in_processes", "run_sweep"]

Tell = Callable[[str], None]
OpenExecutor = contextlib.AbstractContextManager[Executor]
MakeExecutor = Callable[[OpenedSweep, Collection[int], SweepProgress], OpenExecutor]


def run_sweep(
    path: str | Path,
    cells: Iterable[int] | None = None,
    *,
    quiet: bool = True,
    tell: Tell = lambda line: None,
    **options: Any,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished, one after the other, in this process.

    A cell that fails, or that another process trains, is left; the others are trained, unless the disk is
    full. Where cells select among one another, each is trained up to the next selection in turn.

    **Arguments:**

    - `path`: the folder of the sweep.
    - `cells`: the numbers of the cells to train, of those that select among one another all; by default
        all of the sweep.
    - `quiet`: whether to hide the progress bar over all cells.
    - `tell`: called with a line for each cell.
    - `options`: those of `run_cell`. Events for TensorBoard are in `tensorboard/` in the folder of each cell.

    **Returns:** the sweep, opened. Cells that other processes train may not be finished.

    **Raises:** `CellsFailed` naming the cells that failed; `RunStopped` if `stop` returned True.
    """
    # `stop` ends the cell that is being trained, and so the whole.
    make_executor = functools.partial(in_order, options=options, tell=tell)
    return _run(path, cells, make_executor, tell, quiet, options.get("without_lock", False))


def run_in_processes(
    path: str | Path,
    cells: Iterable[int] | None = None,
    *,
    n_workers: int | None = None,
    scheduler: Any = None,
    devices: int | None = None,
    without_lock: bool = False,
    enable_tensorboard: bool = False,
    quiet: bool = True,
    stop: Callable[[], bool] | None = None,
    tell: Tell = lambda line: None,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished in parallel, each in a process of its own.

    A process that is killed is started again, and its cell continues from the last checkpoint.

    **Arguments:**

    - `path`, `cells`, `quiet`: see `run_sweep`; all workers must see the folder.
    - `n_workers`: how many processes run at a time on this machine, which share its cores, or its
        accelerators; None for one per accelerator, or per core.
    - `scheduler`: a `distributed.Client`, the address of a Dask scheduler, or the file that it wrote, to
        train on its workers, which are waited for if there are none; None for this machine.
    - `devices`: the number of devices over which the members of a cell are divided; None for one.
    - `without_lock`, `enable_tensorboard`: see `run_cell`.
    - `stop`: called about once a second; if it returns True, the cells are saved and stopped.
    - `tell`: called with a line for each cell that ends.

    **Returns:** the sweep, opened.

    **Raises:** `ValueError` if distributed is not installed, the scheduler is not reached, or a worker has
    another popsim or does not see the folder; `CellsFailed` naming the cells that are not finished, or saying
    that the scheduler was lost; `RunStopped` if `stop` returned True.
    """
    check_workers(n_workers, scheduler)
    stopped = stop or (lambda: False)
    words = option_words(without_lock=without_lock, enable_tensorboard=enable_tensorboard)
    words += ["--devices", str(1 if devices is None else devices)]

    def make(opened: OpenedSweep, numbers: Collection[int], progress: SweepProgress) -> OpenExecutor:
        task = _task(opened, words)
        if scheduler is None:
            return on_this_machine(task, min(n_workers or default_workers(), len(numbers)))
        from popsim.sweeps._on_dask import on_dask

        return on_dask(task, opened.folder, scheduler, stopped, tell)

    return _run(path, cells, make, tell, quiet, without_lock, stopped)


def check_workers(n_workers: int | None, scheduler: Any) -> None:
    """Raise `ValueError` if there cannot be so many workers."""
    if n_workers is not None:
        check_positive_int("workers", n_workers)
    if n_workers is not None and scheduler is not None:
        raise ValueError(f"`workers` must not be given with --scheduler, which has its own, got {n_workers}.")


def _task(opened: OpenedSweep, options: Iterable[str]) -> Callable[[int], CellTask]:
    """Return what makes the task of a cell by its number."""
    folder, modules = str(opened.folder.path.resolve()), modules_of(opened.sweep)
    imports = [word for module, _ in modules for word in ("--import", module)]
    arguments = (*imports, "sweep", "run", folder, *options, "--until-input-ends")
    places = tuple(dict.fromkeys(str(place) for _, place in modules))
    return lambda number: CellTask(folder, number, arguments, places)


def _run(
    path: str | Path,
    cells: Iterable[int] | None,
    make_executor: MakeExecutor,
    tell: Tell,
    quiet: bool,
    without_lock: bool,
    stop: Callable[[], bool] = lambda: False,
) -> OpenedSweep:
    """Train the cells that are not finished by an executor, and return the sweep as it is then."""
    if cells is not None:
        cells = [*dict.fromkeys(as_parts("cells", cells, (int, np.integer), "numbers of cells"))]
    opened = open_sweep(path).examine(cells)
    numbers = select_unfinished(opened, cells)
    _check_populations(opened, cells or ())
    _repair(opened, without_lock=without_lock)
    if not numbers:
        return open_sweep(path)
    progress = SweepProgress(opened, numbers)
    with (
        selecting(opened, without_lock=without_lock) as rounds,
        make_executor(opened, numbers, progress) as executor,
        contextlib.nullcontext() if quiet else progress.shown(),
    ):
        outcomes = _train(executor, numbers, rounds, progress, stop, tell)
    now = open_sweep(path).examine(numbers)
    reasons = {
        number: outcomes[number].failure or now.problem_of(number) or "it is not finished"
        for number in numbers
        if number in {*now.unfinished_cells} and (outcomes[number].failure or not outcomes[number].left_to)
    }
    if reasons:
        errors = [outcomes[number].error for number in reasons if outcomes[number].error is not None]
        raise CellsFailed(failure_text(now, reasons)) from next(iter(errors), None)
    return now


def _check_populations(opened: OpenedSweep, cells: Collection[int]) -> None:
    """Raise `ValueError` if some of the cells that select among one another are given without the others."""
    if not opened.sweep.selects_across_cells:
        return
    missing = sorted({other for cell in cells for other in opened.sweep.population_of(cell)} - {*cells})
    if missing:
        raise ValueError(
            "`cells` must have all cells of a population, which select among one another: "
            f"also {numbers_text(missing)}."
        )


def _train(
    executor: Executor,
    numbers: Iterable[int],
    rounds: SelectionRounds,
    progress: SweepProgress,
    stop: Callable[[], bool],
    tell: Tell,
) -> dict[int, CellOutcome]:
    """Train cells, and return how each ended; those that come to a selection continue when all are there.

    Of a sweep that selects, a cell that another process trains is tried until that has come to a selection:
    workers of a client that was killed go on so far.
    """
    outcomes: dict[int, CellOutcome] = {}
    pending = {executor.submit(number): number for number in numbers}
    awaited: set[int] = set()
    is_stopped = False
    while pending:
        if not is_stopped and stop():
            is_stopped = True
            executor.stop()
        executor.wait([*pending])
        progress.read_cells(pending.values())
        for future in [future for future in pending if future.done()]:
            number = pending.pop(future)
            outcome = _outcome(future)
            if outcome.selection is not None and not is_stopped:
                ready = rounds.add(number, *outcome.selection)
                pending |= {executor.submit(cell): cell for cell in ready}
                continue
            if outcome.left_to and rounds.opened.sweep.selects_across_cells and not is_stopped:
                if number not in awaited:
                    awaited.add(number)
                    tell(f"cell {number} is awaited: {outcome.left_to} trains it up to the next selection")
                pending[executor.submit(number)] = number
                continue
            # Only the first error, whose traceback holds all that the cell had in memory.
            has_error = any(earlier.error is not None for earlier in outcomes.values())
            outcomes[number] = dataclasses.replace(outcome, error=None) if has_error else outcome
            is_finished = outcome == CellOutcome()
            tell(f"cell {number} {'is stopped' if is_stopped and not is_finished else outcome}")
            progress.end_cell(number, is_finished=is_finished)
            if _disk_is_full(outcome.error):  # every other cell would fail as well
                failed = {cell: each.failure for cell, each in outcomes.items() if each.failure}
                raise CellsFailed(failure_text(rounds.opened, failed)) from outcome.error
    if is_stopped:
        raise RunStopped(rounds.opened.folder.path, 0)
    return outcomes | {cell: CellOutcome(why) for cell, why in rounds.reasons_to_wait().items()}


def _outcome(future: Any) -> CellOutcome:
    """Return how a cell ended; an error of its future is a failure."""
    error = future.exception()
    if error is None:
        return future.result()
    return CellOutcome(one_line(error) or type(error).__name__, error=error)


def _repair(opened: OpenedSweep, *, without_lock: bool) -> None:
    """Write what is missing or damaged of a sweep and follows from the rest of it."""
    folder = opened.folder
    if not folder.config.exists() or folder.left_overs():
        # What another process is writing need not be repaired here.
        with contextlib.suppress(FolderLockedError), lock_folder(folder.path), saving(folder.path):
            folder.remove_left_overs()
            complete_folder(folder, opened.sweep)
    for number in opened.cells_in(FINISHED):
        cell = opened.cell(number)
        try:
            cell.read_note()
        except (ValueError, OSError):
            with contextlib.suppress(ValueError, OSError):
                # Of a cell that was killed after its summary, the run does not say yet that it is finished.
                options = RunOptions(quiet=True, without_lock=without_lock)
                finish_run(Run(cell.read(), cell.experiment), options)
                with lock_folder(cell.folder.path, without_lock=without_lock):
                    cell.write_note()


def _disk_is_full(error: BaseException | None) -> bool:
    """Whether an error comes from a disk, or a share of it, that is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        # A `SaveError` wraps the error of the system.
        error = error.__cause__ or error.__context__
    return False


def select_unfinished(opened: OpenedSweep, cells: Iterable[int] | None) -> list[int]:
    """Return those of some cells of a sweep, None for all, that are not finished."""
    if cells is None:
        return opened.unfinished_cells
    numbers, unfinished = [opened.cell(number).number for number in cells], set(opened.unfinished_cells)
    return [number for number in numbers if number in unfinished]


def failure_text(opened: OpenedSweep, failed: Mapping[int, str]) -> str:
    """Return a line that names the cells that are not finished, with the reason of the first."""
    names, first = numbers_text([*failed]), next(iter(failed.values()))
    advice = f"To try them again: {opened.folder.command('resume')}"
    if any(opened.state_of(number) == DAMAGED for number in failed):
        advice = damaged_text(opened.folder, opened.cells_in(DAMAGED))
    verb = "is" if len(failed) == 1 else "are"
    return (
        f"{len(failed)} of {count_text(opened.sweep.n_cells, 'cell')} {verb} not finished: {names}; "
        f"the first: {first.rstrip('.'):.300}. {advice}"
    )
