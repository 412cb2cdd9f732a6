"""What trains cells of a sweep: this process, one after the other, or processes, here or on Dask.

An executor trains the cells in the queue of the work, and yields how each ends.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from pathlib import Path
from typing import Any, Literal

from popsim._shared.text_checks import one_line
from popsim.experiments import RunStopped
from popsim.store.identity import FolderLockedError
from popsim.sweeps.cell_training import SelectionPending, is_at_selection, run_cell
from popsim.sweeps.folder import SweepFolder, modules_of
from popsim.sweeps.opened_sweep import OpenedSweep, read_sweep
from popsim.sweeps.progress import SweepProgress
from popsim.training import Observer

__all__ = ["CellsFailed"]

SECONDS_TO_RETRY = 2.0  # a signal that reaches this process and that of a cell is noticed here in that time
SECONDS_HELD = 60  # a lost worker's process notices that within a second or two, saves, and ends
RETRIES = 5
STOPPED = 75  # the exit code of popsim for a run that is saved and not finished, see popsim.cli


class CellsFailed(RuntimeError):
    """Some cells of a sweep could not be trained; the others are finished. The message names them."""


@dataclasses.dataclass(frozen=True)
class CellOutcome:
    """How the training of a cell ended: why it failed, or to which process it is left.

    One that "waits" has come to a selection.
    """

    how: Literal["finished", "failed", "waits", "left", "stopped"] = "finished"
    text: str = ""
    error: BaseException | None = None

    @classmethod
    def from_error(cls, error: BaseException) -> "CellOutcome":
        return cls("failed", one_line(error) or type(error).__name__, error)

    def __str__(self) -> str:
        special = {"failed": f"failed: {self.text}", "left": f"is left to {self.text}"}
        return special.get(self.how, f"is {self.how}")


Outcomes = Generator[tuple[int, CellOutcome], None, None]


@dataclasses.dataclass(frozen=True)
class Work:
    """What executors share: the sweep, its progress, what is called with lines, and what says to stop.

    `cells` is the queue of cells to train, to which some may be added while an executor runs.
    """

    opened: OpenedSweep
    cells: collections.deque[int]
    progress: SweepProgress
    tell: Callable[[str], None]
    stop: Callable[[], bool]


def train_in_order(work: Work, *, observers: Sequence[Observer] = (), **options: Any) -> Outcomes:
    """Train cells in this process, by `run_cell`."""
    opened, announced = work.opened, set[int]()
    options["observers"] = [*observers, work.progress]
    while work.cells:
        if work.stop():
            raise RunStopped(opened.folder.path, 0)
        number, outcome = work.cells.popleft(), CellOutcome()
        if number not in announced:
            work.tell(f"cell {number} of {opened.n_cells}: {opened.sweep.cell(number)}")
            announced.add(number)
        work.progress.begin_cell(number)
        try:
            run_cell(opened.folder.path, number, stop=work.stop, **options)
        except SelectionPending:
            outcome = CellOutcome("waits")
        except FolderLockedError:
            outcome = CellOutcome("left", opened.folder.holder(number) or "another process")
            if opened.sweep.selects_across_cells:  # it is tried again
                time.sleep(SECONDS_TO_RETRY)
        except (ValueError, OSError, MemoryError, RuntimeError, ArithmeticError) as error:
            outcome = CellOutcome.from_error(error)
        yield number, outcome


def train_in_processes(
    work: Work,
    submit: Callable[[int], concurrent.futures.Future[CellOutcome]],
    stop_cells: Callable[[], None],
    has_workers: Callable[[], bool] = lambda: True,
) -> Outcomes:
    """Train cells in processes; raises `RunStopped` if it is to stop.

    `submit` begins to train a cell, and `stop_cells` has all cells saved and stopped.
    """
    pending: dict[concurrent.futures.Future[CellOutcome], int] = {}
    is_stopping = False
    try:
        while work.cells or pending:
            pending |= {submit(number): number for number in work.cells}
            work.cells.clear()
            if not is_stopping and work.stop():
                is_stopping = True
                stop_cells()
            if is_stopping and not has_workers():  # then no future ends
                break
            ended, _ = concurrent.futures.wait(pending, timeout=1.0, return_when="FIRST_COMPLETED")
            work.progress.read_cells(pending.values())
            for future in ended:
                error = future.exception()
                yield pending.pop(future), CellOutcome.from_error(error) if error else future.result()
    except BaseException:
        stop_cells()
        raise
    if is_stopping:
        raise RunStopped(work.opened.folder.path, 0)


def train_on_this_machine(work: Work, process: "CellProcess", n_workers: int) -> Outcomes:
    """Train cells in some processes of this machine, which save and end with the iterator.

    What is started is the command that a person would type. A function of a worker would not do: its memory
    grows by the programs of each cell, its JAX keeps the devices with which it began, and it does not notice
    that the module of a user has changed.
    """
    places, stopping = queue.SimpleQueue[int](), threading.Event()
    for place in range(n_workers):
        places.put(place)

    def train(number: int) -> CellOutcome:
        place = places.get()
        try:
            return process.train(number, stopping, (place, n_workers))
        finally:
            places.put(place)

    with concurrent.futures.ThreadPoolExecutor(n_workers) as pool:
        yield from train_in_processes(work, functools.partial(pool.submit, train), stopping.set)


def option_words(*, without_lock: bool = False, enable_tensorboard: bool = False) -> list[str]:
    """Return options of `run_cell` as words of the command that trains a cell in another process."""
    return ["--quiet", *["--without-lock"] * without_lock, *["--tensorboard"] * enable_tensorboard]


@dataclasses.dataclass(frozen=True)
class CellProcess:
    """What trains a cell of the sweep in a folder in a process of its own, as plain values.

    The modules that the `arguments` of popsim name are found in the folders of `python_path`.
    """

    path: str
    arguments: tuple[str, ...]
    python_path: tuple[str, ...]

    @classmethod
    def build(cls, opened: OpenedSweep, options: Collection[str]) -> "CellProcess":
        """Return what trains cells of a sweep with some options of the command."""
        folder, modules = str(opened.folder.path.resolve()), modules_of(opened.sweep)
        imports = [word for module, _ in modules for word in ("--import", module)]
        arguments = (*imports, "sweep", "run", folder, *options, "--until-input-ends")
        return cls(folder, arguments, tuple(str(place) for _, place in modules))

    def command(self, number: int) -> list[str]:
        """Return the command that trains a cell."""
        return [sys.executable, "-P", "-m", "popsim.cli", *self.arguments, "--cell", str(number)]

    def train(self, number: int, stopping: Any, place: tuple[int, int] | None = None) -> CellOutcome:
        """Train a cell up to the next selection; a process that is killed is started again.

        The event `stopping`, of `threading` or of Dask, stops all cells. `place` is the number of the process
        among those of this machine, and how many these are.
        """
        code = None
        for _ in range(1 + RETRIES):
            if holder := self._wait_until_free(number, stopping):
                return CellOutcome("left", holder)
            with tempfile.TemporaryFile("w+", errors="replace") as errors:
                code = None if stopping.is_set() else self._run(number, errors, stopping, place)
                errors.seek(0)
                lines = errors.read().strip().splitlines()
            if code == 0:
                return CellOutcome()
            if code == STOPPED and is_at_selection(read_sweep(self.path, is_known=False), number):
                return CellOutcome("waits")
            if code is not None and code > 0 and code != STOPPED:
                return CellOutcome("failed", lines[-1] if lines else f"its process ended with code {code}")
            if code is None or stopping.wait(SECONDS_TO_RETRY):
                return CellOutcome("stopped")
        return CellOutcome("failed", f"the process of cell {number} ended with code {code}")

    def _wait_until_free(self, number: int, stopping: Any) -> str | None:
        """Return the process that still trains a cell after a while."""
        folder, until = SweepFolder(Path(self.path)), time.monotonic() + SECONDS_HELD
        while (holder := folder.holder(number)) is not None and not stopping.is_set():
            if time.monotonic() > until:
                return holder
            time.sleep(1)
        return None

    def _run(self, number: int, errors: Any, stopping: Any, place: tuple[int, int] | None) -> int | None:
        """Run the process of a cell, on its share of the cores or on its accelerator.

        **Returns:** its exit code; None if it was stopped by the event.
        """
        paths = [*self.python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
        env, (worker, n_workers) = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}, place or (0, 1)
        if place is not None and (names := _accelerators()):
            env["CUDA_VISIBLE_DEVICES"] = names[worker % len(names)]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(self.command(number), stdin=pipe, stdout=nothing, stderr=errors, env=env)
        if place is not None and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):  # it has ended already
                os.sched_setaffinity(process.pid, _cores()[worker % len(_cores()) :: n_workers])
        is_stopped, held_input = False, process.stdin
        assert held_input is not None
        with held_input:  # if this process dies, the input of the other ends, and so does it
            while True:
                try:
                    code = process.wait(timeout=1)
                    return None if is_stopped and code == STOPPED else code
                except subprocess.TimeoutExpired:
                    if not is_stopped and stopping.is_set():
                        is_stopped = True
                        process.terminate()


def default_workers() -> int:
    """Return the number of accelerators, or else of cores, that this process may use."""
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
