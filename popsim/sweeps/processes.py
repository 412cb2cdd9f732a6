"""The cells of a sweep in parallel, each trained in its own process, on this machine or on a Dask cluster.

What is started is the command that a person would type. A function of the worker would not do: its memory
grows by the programs of each cell, its JAX keeps the devices with which it began, and it does not notice that
the module of a user has changed.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popsim._shared.checks import as_parts, check_positive_int
from popsim._shared.text_checks import one_line
from popsim.experiments.run_options import RunStopped
from popsim.sweeps.cell_process import (
    RETRIES,
    WAS_STOPPED,
    CellOutcome,
    CellStopped,
    CellTask,
    default_workers,
    option_words,
    train_cell,
)
from popsim.sweeps.folder import modules_of
from popsim.sweeps.opened_sweep import OpenedSweep, open_sweep
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.running import CellsFailed, failure_text, select_unfinished
from popsim.sweeps.selection import SelectionRounds, selecting

__all__ = ["run_in_processes"]

SECONDS_TO_RETRY = 2.0  # a signal that reaches this process and that of a cell is noticed here in that time


@dataclasses.dataclass(frozen=True)
class Engine:
    """What trains cells, each in a process.

    - `submit`: begins to train one, and returns the future of its `CellOutcome`.
    - `wait`: waits until one of some futures is done, for about a second.
    - `stop`: has all cells saved and stopped.
    """

    submit: Callable[[CellTask], Any]
    wait: Callable[[Collection[Any]], None]
    stop: Callable[[], None]


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
    tasks, progress = (
        _tasks(
            opened,
            numbers,
            devices,
            option_words(without_lock=without_lock, enable_tensorboard=enable_tensorboard),
        ),
        SweepProgress(opened, numbers),
    )
    stop = stop or (lambda: False)
    if scheduler is None:
        engine = _this_machine(min(n_workers or default_workers(), len(tasks)))
    else:
        from popsim.sweeps._on_dask import on_dask

        engine = on_dask(opened.folder, scheduler, stop, tell)
    with (
        selecting(opened, without_lock=without_lock) as rounds,
        engine as engine,
        contextlib.nullcontext() if quiet else progress.shown(),
    ):
        failed = _train(engine, tasks, rounds, progress, stop, tell)
    now = open_sweep(path).examine(numbers)
    unfinished = set(now.unfinished_cells).intersection(numbers)
    if reasons := {number: failed.get(number, "it is not finished") for number in sorted(unfinished)}:
        raise CellsFailed(failure_text(now, reasons))
    return now


def _tasks(
    opened: OpenedSweep, numbers: Iterable[int], devices: int | None, options: Iterable[str]
) -> dict[int, CellTask]:
    """Return what processes need in order to train cells, by number."""
    folder, modules = str(opened.folder.path.resolve()), modules_of(opened.sweep)
    imports = [word for module, _ in modules for word in ("--import", module)]
    arguments = [*imports, "sweep", "run", folder, *options, "--until-input-ends"]
    arguments += ["--devices", str(1 if devices is None else devices)]
    places = tuple(dict.fromkeys(str(place) for _, place in modules))
    return {number: CellTask(folder, number, tuple(arguments), places) for number in numbers}


def check_workers(n_workers: int | None, scheduler: Any) -> None:
    """Raise `ValueError` if there cannot be so many workers."""
    if n_workers is not None:
        check_positive_int("workers", n_workers)
    if n_workers is not None and scheduler is not None:
        raise ValueError(f"`workers` must not be given with --scheduler, which has its own, got {n_workers}.")


def _train(
    engine: Engine,
    tasks: Mapping[int, CellTask],
    rounds: SelectionRounds,
    progress: SweepProgress,
    stop: Callable[[], bool],
    tell: Callable[[str], None],
) -> dict[int, str]:
    """Train cells, and return why cells failed, by number."""
    failed: dict[int, str] = {}
    is_stopped = False
    numbers = {engine.submit(task): number for number, task in tasks.items()}
    while numbers:
        if not is_stopped and stop():
            is_stopped = True
            engine.stop()
        engine.wait([*numbers])
        progress.read_cells(numbers.values())
        for future in [pending for pending in numbers if pending.done()]:
            number = numbers.pop(future)
            outcome = _outcome(future)
            if outcome.selection is not None and not is_stopped:
                for ready in rounds.add(number, *outcome.selection):
                    numbers[engine.submit(tasks[ready])] = ready
                continue
            is_finished = outcome == CellOutcome()
            ended = "is stopped" if is_stopped else f"failed: {outcome.failure}"
            tell(f"cell {number} {'is finished' if is_finished else ended}")
            progress.end_cell(number, is_finished=is_finished)
            if outcome.failure:
                failed[number] = outcome.failure
    if is_stopped:
        raise RunStopped(rounds.described.folder.path, 0)
    return failed | rounds.reasons_to_wait()


def _outcome(future: Any) -> CellOutcome:
    error = future.exception()
    return future.result() if error is None else CellOutcome(one_line(error) or type(error).__name__)


@contextlib.contextmanager
def _this_machine(n_workers: int) -> Iterator[Engine]:
    """Return what trains cells in processes of this machine; on leaving, their processes save and end."""
    places, stopping = queue.SimpleQueue(), threading.Event()
    for place in range(n_workers):
        places.put(place)

    def train(task: CellTask) -> CellOutcome:
        place = places.get()
        try:
            return _train_with_retries(task, stopping, (place, n_workers))
        finally:
            places.put(place)

    def wait(futures: Collection[Any]) -> None:
        concurrent.futures.wait(futures, timeout=1.0, return_when=concurrent.futures.FIRST_COMPLETED)

    with concurrent.futures.ThreadPoolExecutor(n_workers) as pool:
        try:
            yield Engine(functools.partial(pool.submit, train), wait, stopping.set)
        except BaseException:
            stopping.set()
            raise


def _train_with_retries(task: CellTask, stopping: threading.Event, place: tuple[int, int]) -> CellOutcome:
    """Train a cell, again if its process is killed, as Dask does."""
    reason = ""
    for _ in range(1 + RETRIES):
        try:
            return train_cell(task, stopping, place)
        except CellStopped as error:
            reason = str(error)
            if stopping.wait(SECONDS_TO_RETRY):
                return WAS_STOPPED
    return CellOutcome(reason)
