"""Make the folder of a sweep, and train the cells that are missing."""

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from popsim._shared.checks import as_parts, check_instance, check_positive_int
from popsim._shared.named_values import numeric_flags
from popsim._shared.text_checks import as_path, check_path, count_text
from popsim.experiments.run_options import CODE, FLAGS, check_size, code_of_experiment
from popsim.store import lock_folder
from popsim.store.files import make_folder, raise_save_errors
from popsim.store.identity import FolderLockedError, new_run_id
from popsim.store.json_files import plain_json, write_sealed_json
from popsim.sweeps.cell_training import cells_to_continue, waiting_reason
from popsim.sweeps.cells import DAMAGED
from popsim.sweeps.executors import (
    CellProcess,
    CellsFailed,
    Outcomes,
    Work,
    default_workers,
    option_words,
    train_in_order,
    train_on_this_machine,
)
from popsim.sweeps.folder import SweepFolder, describe_sweep
from popsim.sweeps.opened_sweep import OpenedSweep, numbers_text, open_sweep
from popsim.sweeps.overview import damaged_text
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.sweep import Sweep
from popsim.version import __version__

__all__ = ["make_sweep", "run_sweep"]

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
        CODE: code_of_experiment(sweep.experiment),
        "division": dataclasses.asdict(sweep.division),
        "n_cells": sweep.n_cells,
        "n_members": sweep.n_members,
    }
    with lock_folder(folder.path, without_lock=without_lock), raise_save_errors(folder.path):
        _check_is_new(folder)  # another process may have made one meanwhile
        write_sealed_json(folder.description, described)
        make_folder(folder.cells)
    return open_sweep(path)


def run_sweep(
    path: str | Path,
    cells: Iterable[int] | None = None,
    *,
    n_workers: int | Literal["all"] | None = None,
    scheduler: Any = None,
    n_devices: int | None = None,
    quiet: bool = True,
    stop: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished: one after the other in this process, or in parallel.

    A cell that fails, or that another process trains, is left; the others are trained. Where cells select
    among one another, each is trained up to the next selection in turn. With `n_workers` or `scheduler` each
    cell is trained by a process of its own; one that is killed is started again, and its cell continues from
    the last checkpoint.

    **Arguments:**

    - `path`: the folder of the sweep, which all workers must see.
    - `cells`: the numbers of the cells to train, with which those train that select among them; by default
        all of the sweep.
    - `n_workers`: how many processes run at a time on this machine, which share its cores, or its
        accelerators; "all" for one per accelerator, or per core; None for this process.
    - `scheduler`: a `distributed.Client`, the address of a Dask scheduler, or the file that it wrote, to
        train on its workers, which are waited for if there are none; None for this machine.
    - `n_devices`: the number of devices over which such a process divides the members of a cell; None for
        one. In this process, give `devices`.
    - `quiet`: whether to hide the progress bar over all cells.
    - `tell`: called with a line for each cell.
    - `stop`, `options`: those of `run_cell`; for other processes `without_lock` and `enable_tensorboard`.

    **Returns:** the sweep, opened. Cells that other processes train may not be finished.

    **Raises:** `CellsFailed` naming the cells that are not finished, or saying that the scheduler was lost;
    `RunStopped` if `stop` returned True; `ValueError` if distributed is not installed, the scheduler is not
    reached, or a worker has another popsim or does not see the folder.
    """
    check_workers(n_workers, scheduler)
    if n_devices is not None and n_workers is None and scheduler is None:
        raise ValueError(
            f"`n_devices` must be given with `n_workers` or `scheduler`, got {n_devices} for this process, "
            "which takes `devices`."
        )
    opened = open_sweep(path)
    folder, asked = opened.folder, _cells_to_train(opened, cells)
    opened = opened.examine(asked)
    missing = [number for number in opened.unfinished_cells if number in asked]
    if folder.left_overs():
        # What another process is writing need not be removed here.
        with contextlib.suppress(FolderLockedError), lock_folder(folder.path), raise_save_errors(folder.path):
            folder.remove_left_overs()
    if not missing:
        return opened
    work = Work(opened, collections.deque(missing), SweepProgress(opened, missing), tell, stop)
    outcomes = _train(work, n_workers, scheduler, n_devices, options)
    with contextlib.nullcontext() if quiet else work.progress.display(), contextlib.closing(outcomes):
        failed, error = _follow(outcomes, work)
    now = open_sweep(path).examine({*missing})
    unfinished = {*now.unfinished_cells}
    if failed := {number: text for number, text in failed.items() if number in unfinished}:
        raise CellsFailed(failure_text(now, failed)) from error
    return now


def check_workers(n_workers: int | Literal["all"] | None, scheduler: Any) -> None:
    """Raise `ValueError` if there cannot be so many workers."""
    if n_workers is not None and n_workers != "all":
        check_positive_int("workers", n_workers)
    if n_workers is not None and scheduler is not None:
        raise ValueError(f"`workers` must not be given with --scheduler, which has its own, got {n_workers}.")


def _train(
    work: Work, n_workers: int | Literal["all"] | None, scheduler: Any, n_devices: int | None, options: Any
) -> Outcomes:
    """Train cells by the executor that the arguments of `run_sweep` name."""
    if n_workers is None and scheduler is None:
        return train_in_order(work, **options)
    process = CellProcess.build(work.opened, [*option_words(**options), "--devices", str(n_devices or 1)])
    if scheduler is None:
        most = default_workers() if n_workers is None or n_workers == "all" else n_workers
        return train_on_this_machine(work, process, min(most, len(work.cells)))
    from popsim.sweeps._on_dask import train_on_dask

    return train_on_dask(work, process, scheduler)


def _cells_to_train(opened: OpenedSweep, cells: Iterable[int] | None) -> set[int]:
    """Return some cells, all for None, with those that select among them."""
    if cells is None:
        return {*range(opened.n_cells)}
    numbers = {opened.cell(n).number for n in as_parts("cells", cells, (int, np.integer), "numbers")}
    if opened.sweep.selects_across_cells:
        return {other for number in numbers for other in opened.sweep.population_of(number)}
    return numbers


def _follow(outcomes: Outcomes, work: Work) -> tuple[dict[int, str], BaseException | None]:
    """Follow cells to their ends, and return why some are not finished, and the first error.

    Those that come to a selection are put back into the queue when all are there. Of a sweep that selects, a
    cell that another process trains is tried until that has come to a selection: workers of a client that was
    killed train so far.
    """
    opened, waiting, awaited, failed = work.opened, set[int](), set[int](), dict[int, str]()
    first_error = None  # only of one, as its traceback holds all that the cell had in memory
    for number, outcome in outcomes:
        if outcome.how == "waits":
            waiting.add(number)
        elif outcome.how == "left" and opened.sweep.selects_across_cells:
            if number not in awaited:
                awaited.add(number)
                work.tell(f"cell {number} is awaited: {outcome.text} trains it up to the next selection")
            work.cells.append(number)
        else:
            work.tell(f"cell {number} {outcome}")
            work.progress.end_cell(number, is_finished=outcome.how == "finished")
            if outcome.how in ("failed", "finished"):
                failed[number] = outcome.text
                first_error = first_error or outcome.error
        # However it ended: a cell that finds the scores of all others goes on past a selection by itself.
        ready = cells_to_continue(opened, waiting, number) if waiting else []
        waiting.difference_update(ready)
        work.cells.extend(ready)
    return failed | {number: waiting_reason(opened, number) for number in waiting}, first_error


def failure_text(opened: OpenedSweep, failed: Mapping[int, str]) -> str:
    """Return a line that names the cells that are not finished, with the reason of the first."""
    names, (number, reason) = numbers_text([*failed]), next(iter(failed.items()))
    reason = reason or opened.problem_of(number) or "it is not finished"
    advice = f"To try them again: {opened.folder.command('resume')}"
    if any(opened.notes[number].state == DAMAGED for number in failed):
        advice = damaged_text(opened)
    verb = "is" if len(failed) == 1 else "are"
    return (
        f"{len(failed)} of {count_text(opened.sweep.n_cells, 'cell')} {verb} not finished: {names}; "
        f"the first: {reason.rstrip('.'):.300}. {advice}"
    )
