"""A cell that is trained in a process of its own: the command, and how the process ends."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from popsim.sweeps.folder import SweepFolder

__all__ = ["CellOutcome", "CellStopped", "CellTask", "default_workers", "option_words", "train_cell"]

SECONDS_HELD = 60  # a lost worker's process notices that within a second or two, saves, and ends
RETRIES = 5
STOPPED = 75  # the exit code of popsim for a run that is saved and not finished, see popsim.cli
SCORES = "popsim scores "  # begins the line that a cell prints at a selection


class CellStopped(RuntimeError):
    """The process of a cell was stopped or killed; when tried again, it continues from its checkpoint."""


@dataclasses.dataclass(frozen=True)
class CellOutcome:
    """How the training of a cell ended.

    - `failure`, `error`: why it failed; empty if it did not.
    - `selection`: where it came to one, the number of batches, and the scores of the members.
    - `left_to`: the process that trains it, if another one does; a failure where cells have processes.
    """

    failure: str = ""
    selection: tuple[int, list[float]] | None = None
    left_to: str = ""
    error: BaseException | None = None

    def __str__(self) -> str:
        if self.left_to:
            return f"is left to {self.left_to}"
        return f"failed: {self.failure}" if self.failure else "is finished"


WAS_STOPPED = CellOutcome("it was stopped")


@dataclasses.dataclass(frozen=True)
class CellTask:
    """A cell of the sweep in a folder, and what a process needs in order to train it, as plain values.

    The modules that the `arguments` of popsim name are found in the folders of `python_path`.
    """

    path: str
    number: int
    arguments: tuple[str, ...]
    python_path: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """The command that trains the cell."""
        return [sys.executable, "-P", "-m", "popsim.cli", *self.arguments, "--cell", str(self.number)]


def option_words(*, without_lock: bool, enable_tensorboard: bool) -> list[str]:
    """Return options of `run_cell` as words of the command that trains a cell in another process."""
    return ["--quiet", *["--without-lock"] * without_lock, *["--tensorboard"] * enable_tensorboard]


def selection_line(n_batches: int, scores: list[float]) -> str:
    """Return what the process of a cell prints when it has come to a selection."""
    return SCORES + json.dumps([n_batches, scores])


def train_cell(task: CellTask, stopping: Any, place: tuple[int, int] | None = None) -> CellOutcome:
    """Train a cell in a process, once; up to the next selection, if its members select with those of others.

    The event `stopping`, of `threading` or of Dask, stops all cells. `place` is the number of the process
    among those of this machine, and how many these are. A process that is killed raises `CellStopped`.
    """
    sweep = SweepFolder(Path(task.path))
    until = time.monotonic() + SECONDS_HELD
    while (holder := sweep.holder(task.number)) is not None:
        if stopping.is_set():
            return WAS_STOPPED
        if time.monotonic() > until:
            return CellOutcome(f"{holder} trains it", left_to=holder)
        time.sleep(1)
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        code = None if stopping.is_set() else _wait(_start(task, printed, errors, place), stopping)
        if code is None:
            return WAS_STOPPED
        # A module of the user may print more as the process ends.
        found = [line.removeprefix(SCORES) for line in _lines(printed) if line.startswith(SCORES)]
        if code == STOPPED and found:
            n_batches, scores = json.loads(found[-1])
            return CellOutcome(selection=(n_batches, scores))
        if code == STOPPED or code < 0:
            raise CellStopped(f"the process of cell {task.number} ended with code {code}")
        said = _lines(errors) or [f"its process ended with code {code}"]
        return CellOutcome("" if code == 0 else said[-1])


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode(errors="replace").strip().splitlines()


def _start(
    task: CellTask, printed: IO[bytes], errors: IO[bytes], place: tuple[int, int] | None
) -> subprocess.Popen[bytes]:
    """Start the process of a cell, on its share of the cores or on its accelerator."""
    paths = [*task.python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    share: set[int] = set()
    if place is not None:
        number, n_workers = place
        share = set(_cores()[number % len(_cores()) :: n_workers])
        if names := _accelerators():
            env["CUDA_VISIBLE_DEVICES"] = names[number % len(names)]
    process = subprocess.Popen(task.command, stdin=subprocess.PIPE, stdout=printed, stderr=errors, env=env)
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
