"""Check a sweep, and make its folder."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from popsim._shared.checks import check_instance
from popsim._shared.named_values import numeric_flags
from popsim._shared.text_checks import as_path, check_path
from popsim.experiments.run_options import FLAGS, check_size
from popsim.store import MismatchError, lock_folder
from popsim.store.files import make_folder, saving, write_file
from popsim.store.identity import new_run_id
from popsim.store.json_files import plain_json, write_sealed_json
from popsim.sweeps.folder import SWEEP_FORMAT, SweepFolder, describe_sweep
from popsim.sweeps.opened_sweep import OpenedSweep, open_sweep, read_sweep
from popsim.sweeps.sweep import Sweep
from popsim.sweeps.sweep_config import config_text
from popsim.version import __version__

__all__ = ["check_sweep", "complete_folder", "make_sweep"]

MOST_MEASURED = 64  # kinds of cells whose memory is forecast; of more as many, evenly spaced


def check_sweep(sweep: Sweep, path: str | Path) -> None:
    """Check a sweep before anything is written: every cell, and its memory."""
    check_instance("sweep", sweep, Sweep, "a Sweep")
    folder = SweepFolder(as_path("out", path))
    check_path("out", folder.cell(0).path)  # below which the longest paths are
    if folder.description.exists():
        _check_same(folder, sweep)
    elif name := folder.foreign_file():
        raise ValueError(f"`out` must be an empty folder, got {path}: it has {name}.")
    by_width = sorted(sweep.cells(), key=lambda cell: cell.experiment.n_members)  # each checks itself
    for cell in by_width:
        sweep.recording.batches(cell.experiment.n_batches, cell.experiment.log_step)
    plain_json("sweep", describe_sweep(sweep))  # before a folder is made
    config_text(sweep)
    cells = [*{tuple(cell.settings.items()): cell for cell in by_width}.values()]  # the widest of each kind
    for cell in cells[:: -(-len(cells) // MOST_MEASURED)]:
        check_size(cell.experiment)


def _check_same(folder: SweepFolder, sweep: Sweep) -> None:
    """**Raises:** `ValueError` that says whether the folder holds this sweep or another."""
    stored = _flat(read_sweep(folder.path).content)
    planned = _flat(plain_json("sweep", describe_sweep(sweep)))
    command = folder.command("resume")
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
        "popsim": __version__,
        "sweep_id": new_run_id(),
        **describe_sweep(sweep),
        FLAGS: numeric_flags(),
        "division": dataclasses.asdict(sweep.division),
        "n_cells": sweep.n_cells,
        "n_members": sweep.n_members,
    }
    with lock_folder(folder.path, without_lock=without_lock), saving(folder.path):
        if folder.description.exists():  # another process has made one meanwhile
            _check_same(folder, sweep)
        folder.remove_left_overs()
        write_sealed_json(
            folder.description, described, SWEEP_FORMAT
        )  # first: after it, resuming makes what is missing
        complete_folder(folder, sweep)
    return open_sweep(path)


def complete_folder(folder: SweepFolder, sweep: Sweep) -> None:
    """Make what follows from `sweep.json` and is not there."""
    for place in (folder.cells, folder.failures):
        make_folder(place)
    if not folder.config.exists():
        write_file(folder.config, [config_text(sweep).encode()])
