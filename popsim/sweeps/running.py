"""Train the cells of a sweep."""

import collections
import contextlib
import dataclasses
import errno
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from popsim._shared.checks import as_parts, warn_caller
from popsim._shared.plain_values import plain_value
from popsim._shared.text_checks import count_text, one_line
from popsim.experiments import Run, RunStopped, run_or_resume
from popsim.experiments.run_options import Devices, RunOptions, check_flags, code_of_experiment
from popsim.experiments.running import finish_run
from popsim.store import RunFolder, SaveError, lock_folder, write_json
from popsim.store.files import make_folder, saving
from popsim.store.identity import FolderLockedError
from popsim.sweeps.cell_notes import DAMAGED, FINISHED, read_note, write_note
from popsim.sweeps.cells import DescribedSweep, SweepCell, read_plan
from popsim.sweeps.making import complete_folder
from popsim.sweeps.opened_sweep import OpenedSweep, numbers_text, open_sweep
from popsim.sweeps.overview import damaged_text
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.selection import CellPopulation, SelectionPending, SelectionRounds, selecting
from popsim.training import Observer
from popsim.version import __version__

__all__ = ["CellsFailed", "run_cell", "run_sweep"]


class CellsFailed(RuntimeError):
    """Some cells of a sweep could not be trained; the others are finished. The message names them."""


def run_cell(
    path: str | Path,
    number: int,
    *,
    devices: Devices | None = None,
    keeps_devices: bool = False,
    quiet: bool = True,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
    enable_tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train a cell of a sweep, or continue it; a finished one is returned as it is.

    Only the folder of the cell is written, and the file that says why it failed. Where its members select
    among those of other cells it is trained up to the next selection; `run_sweep` trains all in turn.

    **Arguments:**

    - `path`: the folder of the sweep.
    - `number`: the number of the cell.
    - `devices`, `quiet`, `without_lock`, `stop`, `enable_tensorboard`, `observers`: see `run_experiment`.
    - `keeps_devices`: whether a cell that has begun continues with as many of the devices as before, for the
        same bits.

    **Returns:** the finished run.

    **Raises:** `ValueError` if there is no such sweep or cell; `MismatchError` if the cell is not what its
    plan says; `FolderLockedError` if another process trains it; `RunStopped` if `stop` returned True,
    `SelectionPending` if it has come to a selection; otherwise as `run_or_resume`.
    """
    described = read_plan(path)
    cell = described.cell(plain_value("number", number))
    run = cell.read() if cell.folder.is_started else None  # before its folder is made, or locked
    _warn_of_changes(described, cell.number, begins=run is None)
    if keeps_devices and devices is not None and run is not None:
        devices = devices[: run.entry("devices", int)]
    sweep = described.sweep
    population = CellPopulation.of_cell(described, cell.number) if sweep.selects_across_cells else None
    place = RunFolder.make(cell.folder.path).path
    with lock_folder(place, without_lock=without_lock), _record_failure(cell, population):
        finished = run_or_resume(
            cell.experiment,
            place,
            quiet=quiet,
            recording=sweep.recording,
            devices=devices,
            stop=stop,
            member_batch_size=sweep.member_batch_size,
            draws_figures=False,
            part_of=cell.part_of,
            population=population,
            without_lock=without_lock,
            enable_tensorboard=enable_tensorboard,
            observers=observers,
        )
        write_note(cell)
    return finished


def _warn_of_changes(described: DescribedSweep, number: int, *, begins: bool) -> None:
    """Warn if a cell may be trained under other flags, or begins with other code, than others were."""
    source = described.folder.description
    if unknown := check_flags(described.content, source):
        warn_caller(
            f"{source} does not tell the {', '.join(unknown)} of JAX: cells trained under others have other "
            "numbers."
        )
    code = code_of_experiment(described.cell(number).experiment)
    if begins and (different := described.folder.note_code(code)):
        names = ", ".join(f"`{name}`" for name in different[:5]) + " and others" * (len(different) > 5)
        warn_caller(
            f"cells of the sweep {source.parent} were trained by other code than this one: {names} differ. "
            "Their results are of two experiments."
        )
    if begins and (made_by := described.content.get("popsim")) != __version__:
        warn_caller(f"the sweep {source.parent} was made by popsim {made_by}, this is {__version__}.")


@contextlib.contextmanager
def _record_failure(cell: SweepCell, population: CellPopulation | None) -> Iterator[None]:
    """Write down why a cell fails within the context, if that can be written, and else that it did not."""
    folder = cell.of_sweep.folder
    try:
        yield
    except RunStopped as stopped:
        # The run says only that it was stopped; whether that was by the caller or to select is known here.
        if population is not None and population.pending is not None:
            command = folder.command("sweep run")
            raise SelectionPending(stopped.path, stopped.n_batches, population.pending, command) from None
        raise
    except Exception as error:
        text = one_line(f"{type(error).__name__}: {error}")[:1000]
        failure = {"error": text, "host": socket.gethostname(), "seconds_since_1970": time.time()}
        with contextlib.suppress(OSError, SaveError):
            make_folder(folder.failures)
            write_json(folder.failure(cell.number), failure)
        raise
    # Of an earlier attempt.
    folder.failure(cell.number).unlink(missing_ok=True)


def run_sweep(
    path: str | Path,
    cells: Iterable[int] | None = None,
    *,
    devices: Devices | None = None,
    keeps_devices: bool = False,
    quiet: bool = True,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
    enable_tensorboard: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished, one after the other, in this process.

    A cell that fails, or that another process trains, is left; the others are trained, unless the disk is
    full. Where cells select among one another, each is trained up to the next selection in turn.

    **Arguments:**

    - `path`: the folder of the sweep.
    - `cells`: the numbers of the cells to train; by default all.
    - `devices`, `keeps_devices`, `without_lock`, `stop`, `enable_tensorboard`: see `run_cell`. Events for
        TensorBoard are in `tensorboard/` in the folder of each cell.
    - `quiet`: whether to hide the progress bar over all cells.
    - `tell`: called with a line for each cell.

    **Returns:** the sweep, opened. Cells that other processes train may not be finished.

    **Raises:** `CellsFailed` naming the cells that failed; `RunStopped` if `stop` returned True.
    """
    cells = None if cells is None else as_parts("cells", cells, (int, np.integer), "numbers of cells")
    opened = open_sweep(path).examine(cells)
    numbers = select_unfinished(opened, cells)
    _repair(opened, without_lock=without_lock)
    progress = SweepProgress(opened, numbers)
    options: dict[str, Any] = {"devices": devices, "keeps_devices": keeps_devices, "stop": stop}
    options |= {"without_lock": without_lock, "enable_tensorboard": enable_tensorboard}
    options |= {"observers": [progress]}
    with selecting(opened, without_lock=without_lock) as rounds:
        attempts = _Attempts(opened, options, tell, progress, rounds)
        with contextlib.nullcontext() if quiet else progress.shown():
            attempts.train_all(numbers)
    now = open_sweep(path).examine(numbers)
    damaged = {number: now.problem_of(number) for number in numbers if now.state_of(number) == DAMAGED}
    unfinished = set(now.unfinished_cells)  # another process may have finished what it held
    failed = {number: why for number, why in (attempts.failed | damaged).items() if number in unfinished}
    if failed:
        raise CellsFailed(failure_text(now, failed)) from attempts.first_error
    return now


@dataclasses.dataclass
class _Attempts:
    """The attempts to train the cells of a sweep in this process, and which of them failed."""

    opened: OpenedSweep
    options: Mapping[str, Any]
    tell: Callable[[str], None]
    progress: SweepProgress
    rounds: SelectionRounds
    failed: dict[int, str] = dataclasses.field(default_factory=dict)
    first_error: Exception | None = None

    def train_all(self, numbers: Sequence[int]) -> None:
        """Train cells one after the other; those that come to a selection continue when all are there."""
        queue, announced = collections.deque(numbers), set()
        while queue:
            number = queue.popleft()
            if number not in announced:
                self.tell(f"cell {number} of {self.opened.sweep.n_cells}: {self.opened.sweep.cell(number)}")
                announced.add(number)
            queue.extend(self._train(number))
        self.failed |= self.rounds.reasons_to_wait()

    def _train(self, number: int) -> list[int]:
        """Train a cell, and note if it fails, or is left to another process; return which cells continue."""
        folder = self.opened.folder
        self.progress.begin_cell(number)
        try:
            run_cell(folder.path, number, **self.options)
        except SelectionPending as pending:
            return self.rounds.add(number, pending.n_batches, pending.scores)
        except FolderLockedError:
            self.tell(f"cell {number} is left to {folder.holder(number) or 'another process'}")
        except (ValueError, OSError, MemoryError, RuntimeError, ArithmeticError) as error:
            self.failed[number] = one_line(error) or type(error).__name__
            self.first_error = self.first_error or error
            self.tell(f"cell {number} failed: {self.failed[number]}")
            if _disk_is_full(error):  # every other cell would fail as well
                raise CellsFailed(failure_text(open_sweep(folder.path), self.failed)) from error
        finally:
            self.progress.end_cell(number, is_finished=folder.cell(number).is_finished)
        return []


def _repair(opened: OpenedSweep, *, without_lock: bool) -> None:
    """Write what is missing or damaged of a sweep and follows from the rest of it."""
    folder = opened.folder
    if not folder.config.exists() or folder.left_overs():
        # What another process is writing need not be repaired here.
        with contextlib.suppress(FolderLockedError), lock_folder(folder.path), saving(folder.path):
            folder.remove_left_overs()
            complete_folder(folder, opened.sweep)
    for number in opened.cells_in(FINISHED):
        cell = opened.cell(number)
        try:
            read_note(cell)
        except (ValueError, OSError):
            with contextlib.suppress(ValueError, OSError):
                # Of a cell that was killed after its summary, the run does not say yet that it is finished.
                options = RunOptions(quiet=True, without_lock=without_lock)
                finish_run(Run(cell.read(), cell.experiment), options)
                with lock_folder(cell.folder.path, without_lock=without_lock):
                    write_note(cell)


def _disk_is_full(error: BaseException | None) -> bool:
    """Whether an error comes from a disk, or a share of it, that is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        # A `SaveError` wraps the error of the system.
        error = error.__cause__ or error.__context__
    return False


def select_unfinished(opened: OpenedSweep, cells: Iterable[int] | None) -> list[int]:
    """Return those of some cells of a sweep, None for all, that are not finished."""
    if cells is None:
        return opened.unfinished_cells
    numbers, unfinished = [opened.cell(number).number for number in cells], set(opened.unfinished_cells)
    return [number for number in numbers if number in unfinished]


def failure_text(opened: OpenedSweep, failed: Mapping[int, str]) -> str:
    """Return a line that names the cells that are not finished, with the reason of the first."""
    names, first = numbers_text([*failed]), next(iter(failed.values()))
    advice = f"To try them again: {opened.folder.command('resume')}"
    if any(opened.state_of(number) == DAMAGED for number in failed):
        advice = damaged_text(opened.folder, opened.cells_in(DAMAGED))
    verb = "is" if len(failed) == 1 else "are"
    return (
        f"{len(failed)} of {count_text(opened.sweep.n_cells, 'cell')} {verb} not finished: {names}; "
        f"the first: {first.rstrip('.'):.300}. {advice}"
    )
