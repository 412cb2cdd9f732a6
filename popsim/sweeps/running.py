"""Make the folder of a sweep, and train its cells."""

import contextlib
import errno
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from popsim._checks import as_parts, check_instance, memory_of_machine, warn_caller
from popsim._numeric_flags import numeric_flags
from popsim._plain_values import plain_value
from popsim._text_checks import as_path, check_path, one_line
from popsim.experiments import Run, run_or_resume
from popsim.experiments.run_experiment import FLAGS, RunStopped, check_flags, check_size, devices_of_run
from popsim.store import MismatchError, RunFolder, SaveError, lock_folder, write_json, write_sealed_json
from popsim.store.files import finished_name, saving, write_file
from popsim.store.identity import FolderHeldError, new_run_id
from popsim.store.json_files import plain_json
from popsim.sweeps.cells import check_cell
from popsim.sweeps.config import config_text
from popsim.sweeps.cost import CellCost, cell_cost, is_estimated
from popsim.sweeps.folder import SWEEP_FORMAT, SweepFolder, describe_sweep
from popsim.sweeps.index import read_note, write_entry
from popsim.sweeps.opened import OpenedSweep, open_sweep
from popsim.sweeps.populations import (
    SECONDS_FOR_OTHERS,
    Waiting,
    WaitsForOthers,
    cells_in_turn,
    shared_population,
)
from popsim.sweeps.sweep import Sweep
from popsim.sweeps.tables import damaged_text
from popsim.version import __version__

__all__ = ["CellsFailed", "make_sweep", "run_cell", "run_sweep"]

Devices = Sequence[jax.Device]  # pyright: ignore[reportInvalidTypeForm]


class CellsFailed(RuntimeError):
    """Some cells of a sweep could not be trained; the others are finished. The message names them."""


def check_sweep(sweep: Sweep, path: str | Path) -> None:
    """Check a sweep before anything is written: every cell, their memory, and the space on the disk."""
    check_instance("sweep", sweep, Sweep, "a Sweep")
    folder = SweepFolder(as_path("out", path))
    check_path("out", folder.cell(0).path)  # below which the longest paths are
    folder.check_plain()
    if folder.description.exists():
        _check_same(folder, sweep)
    elif name := folder.foreign():
        raise ValueError(f"`out` must be an empty folder, got {path}: it has {name}.")
    sweep.check()
    plain_json("sweep", describe_sweep(sweep))  # before a folder is made
    config_text(sweep)
    widest: dict[tuple[tuple[str, Any], ...], Any] = {}
    for cell in sweep.cells():
        of_kind = widest.setdefault(tuple(cell.settings.items()), cell)
        if cell.experiment.n_members > of_kind.experiment.n_members:
            widest[tuple(cell.settings.items())] = cell
    n_bytes = 0
    per_kind = sweep.n_members // max(1, len(widest))
    cost = CellCost(0.0, 0, 0)
    for place, cell in enumerate(widest.values()):
        if not is_estimated(place, len(widest)):
            n_bytes += cost.disk_bytes * per_kind // cell.experiment.n_members
            continue
        cost = cell_cost(cell.experiment, sweep.recording)
        if (memory := memory_of_machine()) is not None and cost.memory_bytes > memory:
            raise ValueError(
                f"a cell of {cell.experiment.n_members} members must fit into the {memory / 1e9:.3g} GB of "
                f"memory: it would take {cost.memory_bytes / 1e9:.3g} GB. `members_per_cell` may be less."
            )
        check_size(cell.experiment)
        n_bytes += cost.disk_bytes * per_kind // cell.experiment.n_members
    existing_folder = next(place for place in (folder.path, *folder.path.resolve().parents) if place.exists())
    free = shutil.disk_usage(existing_folder).free
    if n_bytes > free:
        raise ValueError(
            f"the {sweep.n_members} members of a sweep must fit onto the disk: they would take "
            f"{n_bytes / 1e9:.3g} GB, {free / 1e9:.3g} GB are free. `recording` (--keep) may keep less."
        )


def _check_same(folder: SweepFolder, sweep: Sweep) -> None:
    """**Raises:** `ValueError` that says whether the folder holds this sweep or another."""
    described, _ = folder.read()
    description = describe_sweep(sweep)
    command = folder.command("resume")
    stored, planned = _flat(described), _flat(plain_json("sweep", description))
    differ = [name for name, value in planned.items() if stored.get(name) != value]
    if differ:
        differences = "; ".join(
            f"{name} is {stored.get(name, 'not')} there and {planned[name]} here" for name in differ
        )
        raise MismatchError(f"`out` must not hold another sweep, got {folder.path}: {differences:.600}.")
    raise ValueError(f"`out` must not hold a sweep already, got {folder.path}. To continue it: {command}")


def _flat(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies a sweep, with each of the settings by its name."""
    return {name: value for name, value in described.items() if name != "settings"} | described["settings"]


def make_sweep(sweep: Sweep, path: str | Path, *, without_lock: bool = False) -> OpenedSweep:
    """Make the folder of a sweep, in which nothing is trained yet.

    **Arguments:**

    - `sweep`: the plan.
    - `path`: a folder that is empty or does not exist.
    - `without_lock`: see `TaskTrainer`.

    **Raises:** `ValueError` and `MismatchError` as `check_sweep`; `SaveError` if it cannot be written.
    """
    check_sweep(sweep, path)
    folder = SweepFolder.make(path)
    described = {
        "format": SWEEP_FORMAT,
        "popsim": __version__,
        "sweep_id": new_run_id(),
        **describe_sweep(sweep),
        FLAGS: numeric_flags(),
        "division": sweep.division.described(sweep.axes),
        "n_cells": sweep.n_cells,
        "n_members": sweep.n_members,
    }
    with lock_folder(folder.path, without_lock=without_lock), saving(folder.path):
        if folder.description.exists():  # another process has made one meanwhile
            _check_same(folder, sweep)
        folder.remove_left_overs()
        write_sealed_json(folder.description, described)  # first: after it, resuming makes what is missing
        _complete(folder, sweep)
    return open_sweep(path)


def _complete(folder: SweepFolder, sweep: Sweep) -> None:
    """Make what follows from `sweep.json` and is not there."""
    for place in (folder.cells, folder.failures):
        place.mkdir(exist_ok=True)
    if not folder.config.exists():
        write_file(folder.config, [config_text(sweep).encode()])


def run_cell(
    path: str | Path,
    number: int,
    *,
    devices: Devices | None = None,
    keeps_devices: bool = False,
    quiet: bool = True,
    patience: float = SECONDS_FOR_OTHERS,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """Train a cell of a sweep, or continue it; a finished one is returned as it is.

    Only the folder of the cell is written, the file that says why it failed, and what it offers to other
    cells with which its members select.

    **Arguments:**

    - `path`: the folder of the sweep.
    - `number`: the number of the cell.
    - `devices`, `quiet`, `without_lock`, `stop`: see `run_experiment`.
    - `keeps_devices`: whether a cell that has begun continues with as many of the devices as before, for the
        same bits.
    - `patience`: for how many seconds to wait before a selection for a cell that no process trains.

    **Returns:** the finished run.

    **Raises:** `ValueError` if there is no such sweep or cell; `MismatchError` if the sweep has an earlier
    format, or the cell is not what its plan says; `FolderHeldError` if another process trains it;
    `RunStopped` if `stop` returned True, `WaitsForOthers` if it must wait for cells that no process trains;
    otherwise as `run_or_resume`.
    """
    folder, number = SweepFolder(as_path("path", path)), plain_value("number", number)
    described, sweep = folder.read()
    sweep_id = described["sweep_id"]
    cell = sweep.cell(number)
    folder.check_trainable(described["format"])
    if unknown := check_flags(described, folder.description):
        warn_caller(
            f"{folder.description} does not tell the {', '.join(unknown)} of JAX: cells trained under "
            "others have other numbers."
        )
    place = folder.cell(number)
    place.check_plain()
    if place.is_started:
        check_cell(folder, sweep, sweep_id, number)
    elif described.get("popsim") != __version__:
        warn_caller(
            f"the sweep {folder.path} was made by popsim {described.get('popsim')}, this is {__version__}."
        )
    if keeps_devices and devices is not None and place.description.exists():
        devices = devices[: devices_of_run(place.path)]
    waiting, population = Waiting(folder, sweep.population_of(number), patience), None
    if sweep.selects_across_cells:
        population = shared_population(folder, sweep, sweep_id, number, waiting)
    with lock_folder(RunFolder.make(place.path).path, without_lock=without_lock):
        try:
            run = run_or_resume(
                cell.experiment,
                place.path,
                quiet=quiet,
                recording=sweep.recording,
                devices=devices,
                stop=stop,
                member_batch_size=sweep.member_batch_size,
                draws_figures=False,
                part_of={"sweep": sweep_id, "cell": number},
                population=population,
                without_lock=without_lock,
            )
            write_entry(folder, sweep, sweep_id, number)
        except RunStopped as stopped:
            if waiting.given_up:
                command = folder.command("sweep run")
                raise WaitsForOthers(place.path, stopped.n_batches, waiting.given_up, command) from None
            raise
        except Exception as error:
            _write_failure(folder, number, error)
            raise
        folder.failure(number).unlink(missing_ok=True)
    return run


def _write_failure(folder: SweepFolder, number: int, error: Exception) -> None:
    """Write down why a cell failed, if that can be written."""
    text = one_line(f"{type(error).__name__}: {error}")[:1000]
    failure = {"error": text, "host": socket.gethostname(), "seconds_since_1970": time.time()}
    with contextlib.suppress(OSError, SaveError):
        folder.failures.mkdir(exist_ok=True)
        write_json(folder.failure(number), failure)


def run_sweep(
    path: str | Path,
    cells: Iterable[int] | None = None,
    *,
    devices: Devices | None = None,
    keeps_devices: bool = False,
    quiet: bool = True,
    without_lock: bool = False,
    stop: Callable[[], bool] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> OpenedSweep:
    """Train the cells of a sweep that are not finished, one after the other, in this process.

    A cell that fails, or that another process trains, is left; the others are trained, unless the disk is
    full. Where cells select among one another, each is trained up to the next selection in turn, with other
    processes that do the same, until all are finished.

    **Arguments:**

    - `path`: the folder of the sweep.
    - `cells`: the numbers of the cells to train; by default all.
    - `devices`, `keeps_devices`, `quiet`, `without_lock`, `stop`: see `run_cell`.
    - `tell`: called with a line for each cell.

    **Returns:** the sweep, opened. Cells that other processes train may not be finished.

    **Raises:** `CellsFailed` naming the cells that failed; `RunStopped` if `stop` returned True.
    """
    cells = None if cells is None else as_parts("cells", cells, (int, np.integer), "numbers of cells")
    opened = open_sweep(path).examined(cells)
    numbers = unfinished_cells(opened, cells)
    _repair(opened)
    failed: dict[int, str] = {}
    first_error: Exception | None = None
    held_cells: set[int] = set()
    together = opened.sweep.selects_across_cells
    options: Any = {"devices": devices, "keeps_devices": keeps_devices, "stop": stop}
    options["without_lock"] = without_lock

    def train(number: int) -> None:
        nonlocal first_error
        try:
            run_cell(path, number, quiet=quiet or together, patience=0.0, **options)
        except WaitsForOthers as waits:
            tell(f"cell {number} has come to the selection before batch {waits.n_batches}")
        except RunStopped:
            raise
        except FolderHeldError:
            if not together:
                tell(f"cell {number} is left to {opened.folder.holder(number) or 'another process'}")
            held_cells.add(number)
        except (ValueError, OSError, MemoryError, RuntimeError, ArithmeticError) as error:
            failed[number] = one_line(error) or type(error).__name__
            first_error = first_error or error
            tell(f"cell {number} failed: {failed[number]}")
            if _disk_is_full(error):
                raise CellsFailed(failure_text(open_sweep(path), failed)) from error

    announced = set()
    for number in cells_in_turn(opened, numbers, failed, held_cells, stop) if together else numbers:
        if number not in announced:
            tell(f"cell {number} of {opened.sweep.n_cells}: {opened.sweep.cell(number)}")
            announced.add(number)
        train(number)
    now = open_sweep(path).examined(numbers)
    unfinished = set(now.unfinished)  # another process may have finished what it held
    failed |= {number: now.problem_of(number) for number in numbers if now.state_of(number) == "damaged"}
    if failed := {number: failure for number, failure in failed.items() if number in unfinished}:
        raise CellsFailed(failure_text(now, failed)) from first_error
    return now


def _repair(opened: OpenedSweep) -> None:
    """Write again what is missing or damaged of a sweep and follows from the rest of it.

    **Raises:** `SaveError` if it cannot be written.
    """
    folder, sweep, sweep_id = opened.folder, opened.sweep, opened.sweep_id
    if not folder.config.exists() or any(finished_name(path.name) for path, _ in folder.present()):
        with contextlib.suppress(FolderHeldError), lock_folder(folder.path), saving(folder.path):
            folder.remove_left_overs()
            _complete(folder, sweep)
    for number in opened.cells_in("finished"):
        try:
            read_note(folder, sweep, sweep_id, number)
        except (ValueError, OSError):
            with contextlib.suppress(ValueError, OSError), lock_folder(folder.cell(number).path):
                write_entry(folder, sweep, sweep_id, number)


def _disk_is_full(error: BaseException | None) -> bool:
    """Whether an error comes from a disk, or a share of it, that is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def unfinished_cells(opened: OpenedSweep, cells: Iterable[int] | None) -> list[int]:
    """Return those of some cells of a sweep, None for all, that are not finished.

    **Raises:** `ValueError` if there is no such cell; `MismatchError` if none may be trained, see
    `SweepFolder.check_trainable`.
    """
    opened.folder.check_trainable(opened.format)
    if cells is None:
        return opened.unfinished
    numbers = list(cells)
    for number in numbers:
        opened.sweep.cell(number)
    unfinished = set(opened.unfinished)
    return [number for number in numbers if number in unfinished]


def failure_text(opened: OpenedSweep, failed: Mapping[int, str]) -> str:
    """Return a line that names the cells that are not finished, with the reason of the first."""
    names = ", ".join(map(str, list(failed)[:20])) + (" ..." if len(failed) > 20 else "")
    first = next(iter(failed.values()))
    advice = f"{opened.folder.command('resume')} tries them again"
    if any(opened.state_of(number) == "damaged" for number in failed):
        advice = damaged_text(opened.folder, opened.cells_in("damaged"))
    return (
        f"{len(failed)} of {opened.sweep.n_cells} cells are not finished: {names}; the first: {first:.300} "
        f"({advice})"
    )
