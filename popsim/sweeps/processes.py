"""The cells of a sweep in parallel, each trained in its own process, on this machine or on a Dask cluster.

What is started is the command that a person would type. A function of the worker would not do: its memory
grows by the programs of each cell, its JAX keeps the devices with which it began, and it does not notice that
the module of a user has changed. Cells that select among one another are trained by as many processes as run
at a time, each of which takes all in turn.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from popsim._shared.checks import check_positive_int
from popsim._shared.text_checks import one_line
from popsim.experiments.run_options import RunStopped
from popsim.sweeps.folder import SweepFolder, modules_of
from popsim.sweeps.opened_sweep import OpenedSweep, open_sweep
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.running import CellsFailed, failure_text, select_unfinished

__all__ = ["run_in_processes"]

SECONDS_HELD = 60  # a lost worker's process notices that within a second or two, saves, and ends
SECONDS_TO_RETRY = 2.0  # a signal that reaches this process and that of a cell is noticed here in that time
RETRIES = 5
STOPPED = 75  # the exit code of popsim for a run that is saved and not finished, see popsim.cli
WAS_STOPPED = "it was stopped"


class CellStopped(RuntimeError):
    """The process of a cell was stopped or killed; when tried again, it continues from its checkpoint."""


@dataclasses.dataclass(frozen=True)
class CellTask:
    """A cell of the sweep in a folder, and what a process needs in order to train it, as plain values.

    `together` are the cells that are trained in turn with it, and by other processes, if they select among
    one another; the modules that the `arguments` of popsim name are found in the folders of `python_path`.
    """

    path: str
    number: int
    together: tuple[int, ...]
    arguments: tuple[str, ...]
    python_path: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """The command that trains the cell."""
        cells = [word for number in self.together or [self.number] for word in ("--cell", str(number))]
        return [sys.executable, "-P", "-m", "popsim.cli", *self.arguments, *cells]


@dataclasses.dataclass(frozen=True)
class Cells:
    """The cells that are trained, when to stop, and what is told of them, see `run_in_processes`."""

    tasks: Sequence[CellTask]
    stop: Callable[[], bool]
    tell: Callable[[str], None]
    progress: SweepProgress

    def follow(
        self, futures: Mapping[Any, int], wait: Callable[[Sequence[Any]], None], stop_all: Callable[[], Any]
    ) -> dict[int, str]:
        """Wait for the futures of cells, and return why cells failed, by number."""
        failed: dict[int, str] = {}
        waiting, is_stopped = set(futures), False
        while waiting:
            if not is_stopped and self.stop():
                is_stopped = True
                stop_all()
            wait([*waiting])
            self.progress.read_cells(futures[future] for future in waiting)
            for future in [pending for pending in waiting if pending.done()]:
                waiting.remove(future)
                number, error = futures[future], future.exception()
                failure = future.result() if error is None else one_line(error) or type(error).__name__
                outcome = (
                    "is finished" if not failure else "is stopped" if is_stopped else f"failed: {failure}"
                )
                self.tell(f"cell {number} {outcome}")
                self.progress.end_cell(number, is_finished=not failure)
                if failure:
                    failed[number] = failure
        if is_stopped:
            raise RunStopped(Path(self.tasks[0].path), 0)
        return failed


def run_in_processes(
    path: str | Path,
    cells: Sequence[int] | None = None,
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
            failed = _run_here(cells_to_train, n_workers or default_workers())
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


@contextlib.contextmanager
def stopped_by_errors(stop_all: Callable[[], None]) -> Iterator[None]:
    """Stop all cells if the context is left by an exception, such as `KeyboardInterrupt`."""
    try:
        yield
    except BaseException:
        stop_all()
        raise


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


def train_cell(task: CellTask, stopping: Any, place: tuple[int, int] | None = None) -> str:
    """Train a cell in a process, once; return why it failed, or nothing.

    The event `stopping`, of `threading` or of Dask, stops all cells. `place` is the number of the process
    among those of this machine, and how many these are. A process that is killed raises `CellStopped`.
    """
    sweep = SweepFolder(Path(task.path))
    if task.together and all(sweep.cell(number).is_finished for number in task.together):
        return ""  # by those that began earlier
    until = time.monotonic() + SECONDS_HELD
    while not task.together and (holder := sweep.holder(task.number)) is not None:
        if stopping.is_set():
            return WAS_STOPPED
        if time.monotonic() > until:
            return f"{holder} holds {sweep.cell(task.number).path}"
        time.sleep(1)
    with tempfile.TemporaryFile() as errors:
        code = None if stopping.is_set() else _wait(_start(task, errors, place), stopping)
        if code is None:
            return WAS_STOPPED
        if code == STOPPED or code < 0:
            raise CellStopped(f"the process of cell {task.number} ended with code {code}")
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
    return "" if code == 0 else (lines or [f"its process ended with code {code}"])[-1]


def _start(task: CellTask, errors: IO[bytes], place: tuple[int, int] | None) -> subprocess.Popen[bytes]:
    """Start the process of a cell, on its share of the cores or on its accelerator."""
    paths = [*task.python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    share: set[int] = set()
    if place is not None:
        number, n_workers = place
        share = set(_cores()[number % len(_cores()) :: n_workers])
        if names := _accelerators():
            env["CUDA_VISIBLE_DEVICES"] = names[number % len(names)]
    process = subprocess.Popen(
        task.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=env
    )
    if share and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):  # it has ended already
            os.sched_setaffinity(process.pid, share)
    return process


def _wait(process: subprocess.Popen[bytes], stopping: Any) -> int | None:
    """Return the exit code of the process of a cell; None if it was stopped by the event."""
    assert process.stdin is not None
    is_stopped = False
    with process.stdin:  # if this process dies, the input of the other ends, and so does it
        while True:
            try:
                code = process.wait(timeout=1)
                return None if is_stopped and code == STOPPED else code
            except subprocess.TimeoutExpired:
                if not is_stopped and stopping.is_set():
                    is_stopped = True
                    process.terminate()


def default_workers() -> int:
    """Return the number of accelerators, or else of the cores that the process may use."""
    return len(_accelerators()) or len(_cores())


def _accelerators() -> list[str]:
    """Return the names of the accelerators that the process may use, for `CUDA_VISIBLE_DEVICES`."""
    if not (nvidia := shutil.which("nvidia-smi")):
        return []
    listed = subprocess.run([nvidia, "-L"], capture_output=True, text=True, check=False)
    n_there = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
    if (granted := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return list(map(str, range(n_there)))
    return [name for name in granted.split(",") if name.strip()] if n_there else []


def _cores() -> list[int]:
    n_cores = os.cpu_count() or 1
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(n_cores)]
