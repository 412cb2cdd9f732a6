"""Train a cell of a sweep."""

import contextlib
import dataclasses
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from popsim._shared.checks import warn_caller
from popsim._shared.plain_values import plain_value
from popsim._shared.text_checks import one_line
from popsim.experiments import Run, RunStopped, run_or_resume
from popsim.experiments.run_options import RunOptions, check_flags, code_of_experiment
from popsim.store import RunFolder, SaveError, lock_folder, write_json
from popsim.store.files import make_folder
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.opened_sweep import OpenedSweep, read_sweep
from popsim.sweeps.selection import CellPopulation, pending_selection
from popsim.version import __version__

__all__ = ["run_cell"]


def run_cell(path: str | Path, number: int, *, keeps_devices: bool = False, **options: Any) -> Run:
    """Train a cell of a sweep, or continue it; a finished one is returned as it is.

    Only the folder of the cell is written, and the file that says why it failed. Where its members select
    among those of other cells it is trained up to the next selection; `run_sweep` trains all in turn.

    **Arguments:**

    - `path`: the folder of the sweep.
    - `number`: the number of the cell.
    - `keeps_devices`: whether a cell that has begun continues with as many of the devices as before, for the
        same bits.
    - `options`: how it is trained, see `run_experiment`: `devices`, `stop`, `observers`, `without_lock`,
        `enable_tensorboard`, and `quiet`, which is True by default.

    **Returns:** the finished run.

    **Raises:** `ValueError` if there is no such sweep or cell; `MismatchError` if the cell is not what its
    plan says; `FolderLockedError` if another process trains it; `RunStopped` if `stop` returned True,
    `SelectionPending` if it has come to a selection; otherwise as `run_or_resume`.
    """
    opened = read_sweep(path)
    sweep, cell = opened.sweep, opened.cell(plain_value("number", number))
    run = cell.read() if cell.folder.is_started else None  # before its folder is made, or locked
    _warn_of_changes(opened, code_of_experiment(cell.experiment), begins=run is None)
    population = CellPopulation.of_cell(opened, cell.number) if sweep.selects_across_cells else None
    now = RunOptions(**{"quiet": True, **options, "population": population})
    if keeps_devices and now.devices is not None and run is not None:
        now = dataclasses.replace(now, devices=now.devices[: run.content["devices"]])
    place = RunFolder.make(cell.folder.path).path
    with (
        lock_folder(place, without_lock=now.without_lock),
        _record_failure(opened.folder, cell.number),
        pending_selection(opened, population),
    ):
        finished = run_or_resume(
            cell.experiment,
            place,
            recording=sweep.recording,
            member_batch_size=sweep.member_batch_size,
            draws_figures=False,
            part_of=cell.part_of,
            **{field.name: getattr(now, field.name) for field in dataclasses.fields(now)},
        )
        cell.write_note()
    return finished


def _warn_of_changes(opened: OpenedSweep, code: Mapping[str, str], *, begins: bool) -> None:
    """Warn if a cell may be trained under other flags, or begins with other code, than others were."""
    source = opened.folder.description
    if unknown := check_flags(opened.content, source):
        warn_caller(
            f"{source} does not tell the {', '.join(unknown)} of JAX: cells trained under others have other "
            "numbers."
        )
    if begins and (different := opened.folder.note_code(code)):
        names = ", ".join(f"`{name}`" for name in different[:5]) + " and others" * (len(different) > 5)
        warn_caller(
            f"cells of the sweep {source.parent} were trained by other code than this one: {names} differ. "
            "Their results are of two experiments."
        )
    if begins and (made_by := opened.content.get("popsim")) != __version__:
        warn_caller(f"the sweep {source.parent} was made by popsim {made_by}, this is {__version__}.")


@contextlib.contextmanager
def _record_failure(folder: SweepFolder, number: int) -> Iterator[None]:
    """Write down why a cell fails within the context, if that can be written, and else that it did not."""
    try:
        yield
    except RunStopped:
        raise
    except Exception as error:
        text = one_line(f"{type(error).__name__}: {error}")[:1000]
        failure = {"error": text, "host": socket.gethostname(), "seconds_since_1970": time.time()}
        with contextlib.suppress(OSError, SaveError):
            make_folder(folder.failures)
            write_json(folder.failure(number), failure)
        raise
    # Of an earlier attempt.
    folder.failure(number).unlink(missing_ok=True)
