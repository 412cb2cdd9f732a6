"""A cell that is trained in a process of its own: the command, and how many of them are followed."""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from popsim._shared.text_checks import one_line
from popsim.experiments.run_options import RunStopped
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.progress import SweepProgress

__all__ = ["CellStopped", "CellTask", "Cells", "default_workers", "stopped_by_errors", "train_cell"]

SECONDS_HELD = 60  # a lost worker's process notices that within a second or two, saves, and ends
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


@contextlib.contextmanager
def stopped_by_errors(stop_all: Callable[[], None]) -> Iterator[None]:
    """Stop all cells if the context is left by an exception, such as `KeyboardInterrupt`."""
    try:
        yield
    except BaseException:
        stop_all()
        raise


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
