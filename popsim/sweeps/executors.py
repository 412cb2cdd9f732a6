"""What trains cells of a sweep: this process, one after the other, or processes, here or on Dask.

An executor trains the cells in a queue, to which some may be added meanwhile, and yields how each ends.
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
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from popsim._shared.text_checks import one_line
from popsim.experiments import RunStopped
from popsim.store.identity import FolderLockedError
from popsim.sweeps.cell_training import SelectionPending, is_at_selection, run_cell
from popsim.sweeps.folder import SweepFolder, modules_of
from popsim.sweeps.opened_sweep import OpenedSweep, read_sweep
from popsim.sweeps.progress import SweepProgress

__all__ = ["CellsFailed"]

SECONDS_TO_RETRY = 2.0  # a signal that reaches this process and that of a cell is noticed here in that time
SECONDS_HELD = 60  # a lost worker's process notices that within a second or two, saves, and ends
RETRIES = 5
STOPPED = 75  # the exit code of popsim for a run that is saved and not finished, see popsim.cli

Cells = collections.deque[int]


class CellsFailed(RuntimeError):
    """Some cells of a sweep could not be trained; the others are finished. The message names them."""


class CellStopped(RuntimeError):
    """The process of a cell was stopped or killed; when tried again, it continues from its checkpoint."""


@dataclasses.dataclass(frozen=True)
class CellOutcome:
    """How the training of a cell ended: why it failed, or to which process it is left.

    One that "waits" has come to a selection.
    """

    how: Literal["finished", "failed", "waits", "left", "stopped"] = "finished"
    text: str = ""
    error: BaseException | None = None

    @classmethod
    def of_error(cls, error: BaseException) -> "CellOutcome":
        """Return how a cell ended in which an error was raised."""
        return cls("failed", one_line(error) or type(error).__name__, error)

    def __str__(self) -> str:
        special = {"failed": f"failed: {self.text}", "left": f"is left to {self.text}"}
        return special.get(self.how, f"is {self.how}")


Outcomes = Iterator[tuple[int, CellOutcome]]
Executor = Callable[[Cells], Outcomes]


@dataclasses.dataclass(frozen=True)
class Work:
    """What executors share: the sweep, its progress, what is called with lines, and what says to stop."""

    opened: OpenedSweep
    progress: SweepProgress
    tell: Callable[[str], None]
    stop: Callable[[], bool]


def in_order(work: Work, options: Mapping[str, Any], cells: Cells) -> Outcomes:
    """Train the cells in a queue in this process, by `run_cell`, and yield how each ended."""
    opened, announced = work.opened, set[int]()
    while cells:
        number = cells.popleft()
        if number not in announced:
            work.tell(f"cell {number} of {opened.n_cells}: {opened.sweep.cell(number)}")
            announced.add(number)
        work.progress.begin_cell(number)
        outcome = CellOutcome()
        try:
            run_cell(opened.folder.path, number, stop=work.stop, **options)
        except SelectionPending:
            outcome = CellOutcome("waits")
        except FolderLockedError:
            outcome = CellOutcome("left", opened.folder.holder(number) or "another process")
            if opened.sweep.selects_across_cells:  # it is tried again
                time.sleep(SECONDS_TO_RETRY)
                if work.stop():
                    raise RunStopped(opened.folder.path, 0) from None
        except (ValueError, OSError, MemoryError, RuntimeError, ArithmeticError) as error:
            outcome = CellOutcome.of_error(error)
        yield number, outcome


def in_processes(
    work: Work,
    submit: Callable[[int], Any],
    wait: Callable[[Collection[Any]], None],
    stopping: Any,
    cells: Cells,
) -> Outcomes:
    """Train the cells in a queue in processes, and yield how each ended; `RunStopped` if it is to stop.

    `submit` begins to train a cell, and returns the future of its outcome; `wait` waits about a second for
    some of these; the event `stopping` has all cells saved and stopped.
    """
    pending: dict[Any, int] = {}
    while cells or pending:
        pending |= {submit(number): number for number in cells}
        cells.clear()
        if not stopping.is_set() and work.stop():
            stopping.set()
        wait([*pending])
        work.progress.read_cells(pending.values())
        for future in [future for future in pending if future.done()]:
            error = future.exception()
            yield pending.pop(future), future.result() if error is None else CellOutcome.of_error(error)
    if stopping.is_set():
        raise RunStopped(work.opened.folder.path, 0)


@contextlib.contextmanager
def on_this_machine(work: Work, process: "CellProcess", n_workers: int) -> Iterator[Executor]:
    """Return what trains cells in processes of this machine; on leaving, these save and end.

    What is started is the command that a person would type. A function of a worker would not do: its memory
    grows by the programs of each cell, its JAX keeps the devices with which it began, and it does not notice
    that the module of a user has changed.
    """
    places, stopping = queue.SimpleQueue[int](), threading.Event()
    for place in range(n_workers):
        places.put(place)

    def train(number: int) -> CellOutcome:
        place, reason = places.get(), ""
        try:
            for _ in range(1 + RETRIES):  # as Dask does
                try:
                    return process.train(number, stopping, (place, n_workers))
                except CellStopped as error:
                    reason = str(error)
                if stopping.wait(SECONDS_TO_RETRY):
                    return CellOutcome("stopped")
            return CellOutcome("failed", reason)
        finally:
            places.put(place)

    def wait(futures: Collection[Any]) -> None:
        concurrent.futures.wait(futures, timeout=1.0, return_when=concurrent.futures.FIRST_COMPLETED)

    with concurrent.futures.ThreadPoolExecutor(n_workers) as pool:
        try:
            yield functools.partial(in_processes, work, functools.partial(pool.submit, train), wait, stopping)
        except BaseException:
            stopping.set()
            raise


def option_words(*, without_lock: bool, enable_tensorboard: bool) -> list[str]:
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
    def of(cls, opened: OpenedSweep, options: Collection[str]) -> "CellProcess":
        """Return what trains cells of a sweep with some options of the command."""
        folder, modules = str(opened.folder.path.resolve()), modules_of(opened.sweep)
        imports = [word for module, _ in modules for word in ("--import", module)]
        arguments = (*imports, "sweep", "run", folder, *options, "--until-input-ends")
        return cls(folder, arguments, tuple(dict.fromkeys(str(place) for _, place in modules)))

    def command(self, number: int) -> list[str]:
        """Return the command that trains a cell."""
        return [sys.executable, "-P", "-m", "popsim.cli", *self.arguments, "--cell", str(number)]

    def train(self, number: int, stopping: Any, place: tuple[int, int] | None = None) -> CellOutcome:
        """Train a cell once, up to the next selection; raises `CellStopped` if its process is killed.

        The event `stopping`, of `threading` or of Dask, stops all cells. `place` is the number of the process
        among those of this machine, and how many these are.
        """
        sweep, until = SweepFolder(Path(self.path)), time.monotonic() + SECONDS_HELD
        while (holder := sweep.holder(number)) is not None and not stopping.is_set():
            if time.monotonic() > until:
                return CellOutcome("left", holder)
            time.sleep(1)
        with tempfile.TemporaryFile() as errors:
            code = None if stopping.is_set() else _wait(self._start(number, errors, place), stopping)
            if code is None:
                return CellOutcome("stopped")
            if code == STOPPED and is_at_selection(read_sweep(self.path, is_known=False), number):
                return CellOutcome("waits")
            if code == STOPPED or code < 0:
                raise CellStopped(f"the process of cell {number} ended with code {code}")
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
        last = said[-1] if said else f"its process ended with code {code}"
        return CellOutcome("failed", last) if code else CellOutcome()

    def _start(self, number: int, errors: Any, place: tuple[int, int] | None) -> subprocess.Popen[bytes]:
        """Start the process of a cell, on its share of the cores or on its accelerator."""
        paths = [*self.python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        share: set[int] = set()
        if place is not None:
            worker, n_workers = place
            share = set(_cores()[worker % len(_cores()) :: n_workers])
            if names := _accelerators():
                env["CUDA_VISIBLE_DEVICES"] = names[worker % len(names)]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(self.command(number), stdin=pipe, stdout=nothing, stderr=errors, env=env)
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
