"""The cells of a sweep on Dask, each trained in its own process.

Dask places the cells on workers, repeats what a lost worker had begun, and shows all in its dashboard. A task
carries a path and a number; what it starts is the command that a person would type. Cells that select among
one another are trained by as many processes as there are workers, each of which takes all in turn.

A function of the worker would not do: its memory grows by the programs of each cell, its JAX keeps the
devices with which it began, and it does not notice that the module of a user has changed.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from popsim._shared.text_checks import one_line
from popsim.experiments.run_options import RunStopped
from popsim.sweeps._dask_cluster import accelerators, connect, cores, naming_lost_scheduler
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.opened_sweep import OpenedSweep, open_sweep
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.running import CellsFailed, failure_text, select_unfinished
from popsim.sweeps.user_modules import modules_of
from popsim.version import __version__

__all__ = ["run_on_dask"]

SECONDS_HELD = 60  # a lost worker's process notices that within a second or two, saves, and ends
RETRIES = 5
STOPPED = 75  # the exit code of popsim for a run that is saved and not finished, see popsim.cli


class CellStopped(RuntimeError):
    """The process of a cell was stopped; the cell continues from its checkpoint when Dask tries it again."""


@dataclasses.dataclass(frozen=True)
class CellTask:
    """What a worker needs in order to train a cell.

    - `path`: the folder of the sweep.
    - `number`: the number of the cell.
    - `together`: the cells that are trained in turn with it, and by other workers, if they select among one
        another; else empty.
    - `version`: the version of popsim that asks for it.
    - `modules`: the modules with the experiments of the user, by `--import`.
    - `python_path`: the folders in which these are found.
    - `options`: further options of `popsim sweep run`.
    - `n_local`: for workers of this machine their number, which share its cores and accelerators; else None.
    - `stop`: the name of the event that stops all cells.
    """

    path: str
    number: int
    together: tuple[int, ...]
    version: str
    modules: tuple[str, ...]
    python_path: tuple[str, ...]
    options: tuple[str, ...]
    n_local: int | None
    stop: str

    @property
    def command(self) -> list[str]:
        """The command that trains the cell."""
        imports = [word for module in self.modules for word in ("--import", module)]
        cells = [word for number in self.together or [self.number] for word in ("--cell", str(number))]
        run = ["sweep", "run", self.path, *cells, "--quiet", "--until-input-ends"]
        return [sys.executable, "-P", "-m", "popsim.cli", *imports, *run, *self.options]


def run_on_dask(
    path: str | Path,
    cells: Sequence[int] | None = None,
    *,
    scheduler: str | None = None,
    n_workers: int | None = None,
    devices: int | None = None,
    without_lock: bool = False,
    enable_tensorboard: bool = False,
    quiet: bool = True,
    stop: Callable[[], bool] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished in parallel on Dask.

    **Arguments:**

    - `path`: the folder of the sweep, which all workers must see.
    - `cells`: the numbers of the cells to train; by default all.
    - `scheduler`: the address of a Dask scheduler, or the file that it wrote; None for a cluster of this
        machine, with one worker per accelerator, or per core.
    - `n_workers`: the number of workers of this machine; None for the default.
    - `devices`: the number of devices over which the members of a cell are divided; None for one.
    - `without_lock`, `enable_tensorboard`: see `run_cell`.
    - `quiet`: whether to hide the progress bar over all cells.
    - `stop`: called about once a second; if it returns True, the cells are saved and stopped.
    - `tell`: called with a line for each cell that ends.

    **Returns:** the sweep, opened.

    **Raises:** `ValueError` if distributed is not installed, the scheduler is not reached or has no workers,
    or a worker has another popsim or does not see the folder; `CellsFailed` naming the cells that are not
    finished, or saying that the scheduler was lost; `RunStopped` if `stop` returned True.
    """
    opened = open_sweep(path).examine(cells)
    numbers = select_unfinished(opened, cells)
    if not numbers:
        return opened
    with connect(scheduler, n_workers) as (client, n_local):
        tell(f"Dask: {client.dashboard_link}")
        folder = str(opened.folder.path.resolve())
        with naming_lost_scheduler(client, opened.folder):
            _check_workers(client, folder)
        modules_and_folders = modules_of(opened.sweep)
        modules = tuple(module for module, _ in modules_and_folders)
        python_path = tuple(dict.fromkeys(str(folder) for _, folder in modules_and_folders))
        options = ("--devices", str(1 if devices is None else devices))
        options += ("--without-lock",) if without_lock else ()
        options += ("--tensorboard",) if enable_tensorboard else ()
        event = f"popsim-stop-{uuid.uuid4().hex}"
        how = (__version__, modules, python_path, options, n_local, event)
        together = tuple(numbers) if opened.sweep.selects_across_cells else ()
        tasks = [CellTask(folder, number, together, *how) for number in numbers]
        progress = SweepProgress(opened, numbers)
        shown = contextlib.nullcontext() if quiet else progress.shown()
        with naming_lost_scheduler(client, opened.folder), shown:
            failed = _run_tasks(client, tasks, event, stop, tell, progress)
    now = open_sweep(path).examine(numbers)
    if failed is None:
        raise RunStopped(opened.folder.path, 0)
    unfinished = set(now.unfinished_cells).intersection(numbers)
    reasons = {number: failed.get(number, "it is not finished") for number in sorted(unfinished)}
    if reasons:
        raise CellsFailed(failure_text(now, reasons))
    return now


def _facts(folder: str) -> tuple[str, bool]:
    """Return the version of popsim of a worker, and whether it sees the folder."""
    return __version__, SweepFolder(Path(folder)).is_sweep


def _check_workers(client: Any, folder: str) -> None:
    """**Raises:** `ValueError` naming a worker that has another popsim, or does not see the folder."""
    for worker, facts in client.run(_facts, folder, on_error="return").items():
        if isinstance(facts, Exception):
            raise ValueError(
                f"`scheduler` must have workers with popsim {__version__}: {worker} says {facts}."
            )
        version, sees = facts
        if version != __version__:
            raise ValueError(
                f"`scheduler` must have workers with popsim {__version__}, got {worker} with {version}."
            )
        if not sees:
            raise ValueError(f"`scheduler` must have workers that see {folder}: {worker} does not.")


def _run_tasks(
    client: Any,
    tasks: Sequence[CellTask],
    event: str,
    stop: Callable[[], bool] | None,
    tell: Callable[[str], None],
    progress: SweepProgress,
) -> dict[int, str] | None:
    """Return why cells failed, by number; None if `stop` returned True."""
    import distributed

    stopping = distributed.Event(event, client=client)
    futures = {
        client.submit(train_cell, task, key=f"cell-{task.number}-{event[-8:]}", retries=RETRIES): task.number
        for task in tasks
    }
    failed: dict[int, str] = {}
    waiting, is_stopped = set(futures), False
    while waiting:
        if not is_stopped and stop is not None and stop():
            is_stopped = True
            stopping.set()
        with contextlib.suppress(TimeoutError):
            distributed.wait(list(waiting), timeout=1.0, return_when="FIRST_COMPLETED")
        progress.read_cells(futures[future] for future in waiting)
        for future in [pending for pending in waiting if pending.done()]:
            waiting.remove(future)
            number = futures[future]
            ended = future.status == "finished"
            failure = future.result() if ended else one_line(future.exception())
            outcome = "is finished" if not failure else "is stopped" if is_stopped else f"failed: {failure}"
            tell(f"cell {number} {outcome}")
            progress.end_cell(number, is_finished=not failure)
            if failure:
                failed[number] = failure
    return None if is_stopped else failed


def train_cell(task: CellTask) -> str:
    """Train a cell in a process, on a worker; return why it failed, or nothing.

    **Raises:** `CellStopped` if the process was stopped, so that Dask tries the cell again.
    """
    import distributed

    if task.version != __version__:
        return f"the worker must have popsim {task.version}, got {__version__}"
    sweep = SweepFolder(Path(task.path))
    if task.together and all(sweep.cell(number).is_finished for number in task.together):
        return ""  # by those that began earlier
    until = time.monotonic() + SECONDS_HELD
    while not task.together and (holder := sweep.holder(task.number)) is not None:
        if time.monotonic() > until:
            return f"{holder} holds {sweep.cell(task.number).path}"
        time.sleep(1)
    stop = distributed.Event(task.stop)
    with tempfile.TemporaryFile() as errors:
        code = None if stop.is_set() else _wait(_start(task, errors), stop)
        if code is None:
            return "it was stopped"
        if code == STOPPED or code < 0:
            raise CellStopped(f"the process of cell {task.number} ended with code {code}")
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
    return "" if code == 0 else (lines or [f"its process ended with code {code}"])[-1]


def _start(task: CellTask, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the process of a cell, on its share of the cores or on its accelerator."""
    import distributed

    paths = [*task.python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    share: set[int] = set()
    if task.n_local is not None:
        place = int(distributed.get_worker().name)
        share = set(cores()[place % len(cores()) :: task.n_local])
        if names := accelerators():
            env["CUDA_VISIBLE_DEVICES"] = names[place % len(names)]
    process = subprocess.Popen(
        task.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=env
    )
    if share and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):  # it has ended already
            os.sched_setaffinity(process.pid, share)
    return process


def _wait(process: subprocess.Popen[bytes], stop: Any) -> int | None:
    """Return the exit code of the process of a cell; None if it was stopped by the event."""
    assert process.stdin is not None
    is_stopped = False
    with process.stdin:  # if this worker dies, the input of the process ends, and so does it
        while True:
            try:
                code = process.wait(timeout=1)
                return None if is_stopped and code == STOPPED else code
            except subprocess.TimeoutExpired:
                if not is_stopped and stop.is_set():
                    is_stopped = True
                    process.terminate()
