"""The cells of a sweep in parallel, each trained in its own process, on this machine or on a Dask cluster.

What is started is the command that a person would type. A function of the worker would not do: its memory
grows by the programs of each cell, its JAX keeps the devices with which it began, and it does not notice that
the module of a user has changed. Cells that select among one another are trained by as many processes as run
at a time, each of which takes all in turn.
"""

import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from popsim._shared.checks import as_parts, check_positive_int
from popsim.sweeps.cell_processes import (
    RETRIES,
    WAS_STOPPED,
    Cells,
    CellStopped,
    CellTask,
    default_workers,
    stopped_by_errors,
    train_cell,
)
from popsim.sweeps.folder import modules_of
from popsim.sweeps.opened_sweep import OpenedSweep, open_sweep
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.running import CellsFailed, failure_text, select_unfinished

__all__ = ["run_in_processes"]

SECONDS_TO_RETRY = 2.0  # a signal that reaches this process and that of a cell is noticed here in that time


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
    tell: Callable[[str], None] = lambda line: None,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished in parallel, each in a process of its own.

    A process that is killed is started again, and its cell continues from the last checkpoint.

    **Arguments:**

    - `path`: the folder of the sweep, which all workers must see.
    - `cells`: the numbers of the cells to train; by default all.
    - `n_workers`: how many processes run at a time on this machine, which share its cores, or its
        accelerators; None for one per accelerator, or per core.
    - `scheduler`: a `distributed.Client`, the address of a Dask scheduler, or the file that it wrote, to
        train on its workers, which are waited for if there are none; None for this machine.
    - `devices`: the number of devices over which the members of a cell are divided; None for one.
    - `without_lock`, `enable_tensorboard`: see `run_cell`.
    - `quiet`: whether to hide the progress bar over all cells.
    - `stop`: called about once a second; if it returns True, the cells are saved and stopped.
    - `tell`: called with a line for each cell that ends.

    **Returns:** the sweep, opened.

    **Raises:** `ValueError` if distributed is not installed, the scheduler is not reached, or a worker has
    another popsim or does not see the folder; `CellsFailed` naming the cells that are not finished, or saying
    that the scheduler was lost; `RunStopped` if `stop` returned True.
    """
    check_workers(n_workers, scheduler)
    if cells is not None:
        cells = tuple(dict.fromkeys(as_parts("cells", cells, (int, np.integer), "numbers of cells")))
    opened = open_sweep(path).examine(cells)
    numbers = select_unfinished(opened, cells)
    if not numbers:
        return opened
    folder, modules = str(opened.folder.path.resolve()), modules_of(opened.sweep)
    arguments = [word for module, _ in modules for word in ("--import", module)]
    arguments += ["sweep", "run", folder, "--quiet", "--until-input-ends"]
    arguments += ["--devices", str(1 if devices is None else devices)]
    arguments += ["--without-lock"] * without_lock + ["--tensorboard"] * enable_tensorboard
    together = tuple(numbers) if opened.sweep.selects_across_cells else ()
    places = tuple(dict.fromkeys(str(place) for _, place in modules))
    tasks = [CellTask(folder, number, together, tuple(arguments), places) for number in numbers]
    progress = SweepProgress(opened, numbers)
    cells_to_train = Cells(tasks, stop or (lambda: False), tell, progress)
    with contextlib.nullcontext() if quiet else progress.shown():
        if scheduler is None:
            failed = _run_here(cells_to_train, min(n_workers or default_workers(), len(tasks)))
        else:
            from popsim.sweeps._on_dask import run_on_dask

            failed = run_on_dask(cells_to_train, scheduler)
    now = open_sweep(path).examine(numbers)
    unfinished = set(now.unfinished_cells).intersection(numbers)
    if reasons := {number: failed.get(number, "it is not finished") for number in sorted(unfinished)}:
        raise CellsFailed(failure_text(now, reasons))
    return now


def check_workers(n_workers: int | None, scheduler: Any) -> None:
    """Raise `ValueError` if there cannot be so many workers."""
    if n_workers is not None:
        check_positive_int("workers", n_workers)
    if n_workers is not None and scheduler is not None:
        raise ValueError(f"`workers` must not be given with --scheduler, which has its own, got {n_workers}.")


def _run_here(cells: Cells, n_workers: int) -> dict[int, str]:
    """Train cells in processes of this machine, and return why cells failed."""
    places, stopping = queue.SimpleQueue(), threading.Event()
    for place in range(n_workers):
        places.put(place)

    def train(task: CellTask) -> str:
        place = places.get()
        try:
            return _train_with_retries(task, stopping, (place, n_workers))
        finally:
            places.put(place)

    def wait(waiting: Sequence[Any]) -> None:
        concurrent.futures.wait(waiting, timeout=1.0, return_when=concurrent.futures.FIRST_COMPLETED)

    # To leave the context waits for the threads, whose processes save and end once `stopping` is set.
    with concurrent.futures.ThreadPoolExecutor(n_workers) as pool, stopped_by_errors(stopping.set):
        futures = {pool.submit(train, task): task.number for task in cells.tasks}
        return cells.follow(futures, wait, stopping.set)


def _train_with_retries(task: CellTask, stopping: threading.Event, place: tuple[int, int]) -> str:
    """Train a cell, again if its process is killed, as Dask does; return why it failed, or nothing."""
    reason = ""
    for _ in range(1 + RETRIES):
        try:
            return train_cell(task, stopping, place)
        except CellStopped as error:
            reason = str(error)
            if stopping.wait(SECONDS_TO_RETRY):
                return WAS_STOPPED
    return reason
