"""Make the folder of a sweep, and train the cells that are missing."""

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from popsim._shared.checks import as_parts, check_instance, check_positive_int
from popsim._shared.named_values import numeric_flags
from popsim._shared.text_checks import as_path, check_path, count_text
from popsim.experiments.run_options import FLAGS, check_size
from popsim.store import lock_folder
from popsim.store.files import make_folder, raise_save_errors, write_file
from popsim.store.identity import FolderLockedError, new_run_id
from popsim.store.json_files import plain_json, write_sealed_json
from popsim.sweeps.cell_training import cells_to_continue, why_it_waits
from popsim.sweeps.cells import DAMAGED
from popsim.sweeps.executors import (
    CellProcess,
    CellsFailed,
    Executor,
    Work,
    default_workers,
    in_order,
    on_this_machine,
    option_words,
)
from popsim.sweeps.folder import SweepFolder, config_text, describe_sweep
from popsim.sweeps.opened_sweep import OpenedSweep, numbers_text, open_sweep
from popsim.sweeps.overview import damaged_text
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.sweep import Sweep
from popsim.training import Observer
from popsim.version import __version__

__all__ = ["make_sweep", "run_in_processes", "run_sweep"]

MOST_MEASURED = 64  # kinds of cells whose memory is forecast; of more as many, evenly spaced


def check_sweep(sweep: Sweep, path: str | Path) -> None:
    """Check a sweep before anything is written: every cell, and its memory."""
    check_instance("sweep", sweep, Sweep, "a Sweep")
    folder = SweepFolder(as_path("out", path))
    check_path("out", folder.cell(0).path)  # below which the longest paths are
    _check_is_new(folder)
    if name := folder.foreign_file():
        raise ValueError(f"`out` must be an empty folder, got {path}: it has {name}.")
    by_width = sorted(sweep.cells(), key=lambda cell: cell.experiment.n_members)  # each checks itself
    for cell in by_width:
        sweep.recording.batches(cell.experiment.n_batches, cell.experiment.log_step)
    plain_json("sweep", describe_sweep(sweep))  # before a folder is made
    config_text(sweep)
    cells = [*{tuple(cell.settings.items()): cell for cell in by_width}.values()]  # the widest of each kind
    for cell in cells[:: -(-len(cells) // MOST_MEASURED)]:
        check_size(cell.experiment)


def _check_is_new(folder: SweepFolder) -> None:
    if folder.description.exists():
        raise ValueError(
            f"`out` must not hold a sweep already, got {folder.path}. "
            f"To continue it: {folder.command('resume')}"
        )


def make_sweep(sweep: Sweep, path: str | Path, *, without_lock: bool = False) -> OpenedSweep:
    """Make the folder of a sweep, in which nothing is trained yet.

    **Arguments:**

    - `sweep`: the plan.
    - `path`: a folder that is empty or does not exist.
    - `without_lock`: see `TaskTrainer`.

    **Raises:** `ValueError` if a cell is refused or too large, or `path` holds something; `SaveError` if it
    cannot be written.
    """
    check_sweep(sweep, path)
    folder = SweepFolder.make(path)
    described = {
        "popsim": __version__,
        "sweep_id": new_run_id(),
        **describe_sweep(sweep),
        FLAGS: numeric_flags(),
        "division": dataclasses.asdict(sweep.division),
        "n_cells": sweep.n_cells,
        "n_members": sweep.n_members,
    }
    with lock_folder(folder.path, without_lock=without_lock), raise_save_errors(folder.path):
        _check_is_new(folder)  # another process may have made one meanwhile
        # First: after it, resuming makes what is missing.
        write_sealed_json(folder.description, described)
        _complete(folder, sweep)
    return open_sweep(path)


def _complete(folder: SweepFolder, sweep: Sweep) -> None:
    """Make what follows from `sweep.json` and is not there."""
    folder.remove_left_overs()
    for place in (folder.cells, folder.failures):
        make_folder(place)
    if not folder.config.exists():
        write_file(folder.config, [config_text(sweep).encode()])


def run_sweep(
    path: str | Path,
    cells: Iterable[int] | None = None,
    *,
    quiet: bool = True,
    stop: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda line: None,
    observers: Sequence[Observer] = (),
    **options: Any,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished, one after the other, in this process.

    A cell that fails, or that another process trains, is left; the others are trained. Where cells select
    among one another, each is trained up to the next selection in turn.

    **Arguments:**

    - `path`: the folder of the sweep.
    - `cells`: the numbers of the cells to train, with which those train that select among them; by default
        all of the sweep.
    - `quiet`: whether to hide the progress bar over all cells.
    - `tell`: called with a line for each cell.
    - `stop`, `observers`, `options`: those of `run_cell`.

    **Returns:** the sweep, opened. Cells that other processes train may not be finished.

    **Raises:** `CellsFailed` naming the cells that failed; `RunStopped` if `stop` returned True.
    """

    def here(work: Work, n_cells: int) -> Any:
        seen_by = {"observers": [*observers, work.progress]}
        return contextlib.nullcontext(functools.partial(in_order, work, options | seen_by))

    return _run(path, cells, here, tell, stop, quiet=quiet)


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
    stop: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda line: None,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished in parallel, each in a process of its own.

    A process that is killed is started again, and its cell continues from the last checkpoint.

    **Arguments:**

    - `path`, `cells`, `quiet`, `stop`, `tell`: see `run_sweep`; all workers must see the folder.
    - `n_workers`: how many processes run at a time on this machine, which share its cores, or its
        accelerators; None for one per accelerator, or per core.
    - `scheduler`: a `distributed.Client`, the address of a Dask scheduler, or the file that it wrote, to
        train on its workers, which are waited for if there are none; None for this machine.
    - `devices`: the number of devices over which the members of a cell are divided; None for one.
    - `without_lock`, `enable_tensorboard`: see `RunOptions`.

    **Returns:** the sweep, opened. Cells that other processes train may not be finished.

    **Raises:** `ValueError` if distributed is not installed, the scheduler is not reached, or a worker has
    another popsim or does not see the folder; `CellsFailed` naming the cells that are not finished, or saying
    that the scheduler was lost; `RunStopped` if `stop` returned True.
    """
    check_workers(n_workers, scheduler)
    words = option_words(without_lock=without_lock, enable_tensorboard=enable_tensorboard)
    words += ["--devices", str(1 if devices is None else devices)]

    def elsewhere(work: Work, n_cells: int) -> Any:
        process = CellProcess.of(work.opened, words)
        if scheduler is None:
            return on_this_machine(work, process, min(n_workers or default_workers(), n_cells))
        from popsim.sweeps._on_dask import on_dask

        return on_dask(work, process, scheduler)

    return _run(path, cells, elsewhere, tell, stop, quiet=quiet)


def check_workers(n_workers: int | None, scheduler: Any) -> None:
    """Raise `ValueError` if there cannot be so many workers."""
    if n_workers is not None:
        check_positive_int("workers", n_workers)
    if n_workers is not None and scheduler is not None:
        raise ValueError(f"`workers` must not be given with --scheduler, which has its own, got {n_workers}.")


def _run(
    path: str | Path,
    cells: Iterable[int] | None,
    make_executor: Callable[[Work, int], Any],
    tell: Callable[[str], None],
    stop: Callable[[], bool],
    *,
    quiet: bool,
) -> OpenedSweep:
    """Train the cells that are not finished by an executor, and return the sweep as it is then."""
    opened = open_sweep(path)
    sweep, folder = opened.sweep, opened.folder
    numbers = (
        range(sweep.n_cells) if cells is None else as_parts("cells", cells, (int, np.integer), "numbers")
    )
    asked = dict.fromkeys(opened.cell(number).number for number in numbers)
    if sweep.selects_across_cells:
        asked = dict.fromkeys(other for number in asked for other in sweep.population_of(number))
    opened = opened.examine(asked)
    unfinished = {*opened.unfinished_cells}
    missing = [number for number in asked if number in unfinished]
    if not folder.config.exists() or folder.left_overs():
        # What another process is writing need not be repaired here.
        with contextlib.suppress(FolderLockedError), lock_folder(folder.path), raise_save_errors(folder.path):
            _complete(folder, sweep)
    if not missing:
        return opened
    work = Work(opened, SweepProgress(opened, missing), tell, stop)
    with (
        make_executor(work, len(missing)) as executor,
        contextlib.nullcontext() if quiet else work.progress.shown(),
    ):
        failed, error = _train(executor, work, missing)
    now = open_sweep(path).examine({*missing})
    if failed := {number: text for number, text in failed.items() if number in {*now.unfinished_cells}}:
        raise CellsFailed(failure_text(now, failed)) from error
    return now


def _train(
    executor: Executor, work: Work, numbers: Iterable[int]
) -> tuple[dict[int, str], BaseException | None]:
    """Train cells, and return why some are not finished, and the first error.

    Those that come to a selection continue when all are there. Of a sweep that selects, a cell that another
    process trains is tried until that has come to a selection: workers of a client that was killed go on so
    far.
    """
    opened, cells = work.opened, collections.deque(numbers)
    waiting, awaited, failed = set[int](), set[int](), dict[int, str]()
    first_error = None  # only of one, as its traceback holds all that the cell had in memory
    for number, outcome in executor(cells):
        if outcome.how == "waits":
            waiting.add(number)
            ready = cells_to_continue(opened, waiting, number)
            waiting.difference_update(ready)
            cells.extend(ready)
        elif outcome.how == "left" and opened.sweep.selects_across_cells:
            if number not in awaited:
                awaited.add(number)
                work.tell(f"cell {number} is awaited: {outcome.text} trains it up to the next selection")
            cells.append(number)
        else:
            work.tell(f"cell {number} {outcome}")
            work.progress.end_cell(number, is_finished=outcome.how == "finished")
            if outcome.how in ("failed", "finished"):
                failed[number] = outcome.text
                first_error = first_error or outcome.error
    return failed | {number: why_it_waits(opened, number) for number in waiting}, first_error


def failure_text(opened: OpenedSweep, failed: Mapping[int, str]) -> str:
    """Return a line that names the cells that are not finished, with the reason of the first."""
    names, (number, reason) = numbers_text([*failed]), next(iter(failed.items()))
    reason = reason or opened.problem_of(number) or "it is not finished"
    advice = f"To try them again: {opened.folder.command('resume')}"
    if any(opened.notes[number].state == DAMAGED for number in failed):
        advice = damaged_text(opened.folder, opened.cells_in(DAMAGED))
    verb = "is" if len(failed) == 1 else "are"
    return (
        f"{len(failed)} of {count_text(opened.sweep.n_cells, 'cell')} {verb} not finished: {names}; "
        f"the first: {reason.rstrip('.'):.300}. {advice}"
    )
