"""Checks of the cells of a sweep: that each is what the plan says, and that no file of it is lost."""

from typing import Any

from popsim.experiments.described_run import differences_from_plan
from popsim.store import Checkpoints, MismatchError
from popsim.store.arrays.inspection import check_arrays
from popsim.store.files import missing_file
from popsim.store.run_folder import read_description
from popsim.store.run_parts import (
    check_history_lengths,
    lost_checkpoints,
    read_parts,
    read_summary,
    run_id_of,
    stream_log,
)
from popsim.sweeps.folder import CellFolder, SweepFolder
from popsim.sweeps.sweep import Sweep

__all__ = ["check_cell", "visible_damage"]


def read_cell_description(place: CellFolder, sweep_id: str, number: int) -> dict[str, Any]:
    """Read the `run.json` of a cell, which must be this cell of this sweep.

    **Raises:** `MismatchError` if the run is another cell; `CorruptDataError` if its `run.json` is missing or
    was changed, or a part of it is a link.
    """
    place.check_plain()
    if not place.description.exists():
        raise missing_file(place.description)
    described = read_description(place.description)
    if (part_of := described.get("part_of")) != {"sweep": sweep_id, "cell": number}:
        raise MismatchError(
            f"{place.path} must be cell {number} of this sweep, got a part of {part_of!r:.200}."
        )
    return described


def check_cell(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> str:
    """Check that the run of a cell is what the plan of the sweep says of it; call this before it is used.

    **Returns:** the identity of the run.

    **Raises:** `MismatchError` if the run is another cell, or of another experiment or of other settings;
    `CorruptDataError` if its `run.json` is missing or was changed, or a part of it is a link.
    """
    place = folder.cell(number)
    described = read_cell_description(place, sweep_id, number)
    differences = differences_from_plan(described, sweep.cell(number).experiment, sweep.recording)
    batch_size = described.get("member_batch_size", sweep.member_batch_size)
    if batch_size != sweep.member_batch_size:
        differences.append(("member_batch_size", batch_size, sweep.member_batch_size))
    if differences:
        texts = "; ".join(
            f"`{name}` is {before!r} there and {now!r} here" for name, before, now in differences
        )
        raise MismatchError(f"{place.description} must be as {folder.description} plans it: {texts:.500}.")
    return run_id_of(place)


def visible_damage(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> str:
    """Return what is wrong with a cell as far as can be seen without reading it all; empty if nothing is.

    Damage within files is not seen: `verify_sweep` reads them.
    """
    place = folder.cell(number)
    try:
        check_cell(folder, sweep, sweep_id, number)
        parts = read_parts(place)  # first: what is read later may only be more
        if lost := lost_checkpoints(place, parts):
            return f"{lost}."
        checkpoints = Checkpoints(place.checkpoints, run_id=parts.run_id)
        for step in checkpoints.steps()[-1:]:
            checkpoints.check(step)
        for _ in stream_log(place, parts):  # whose lines must be of this run
            pass
        if parts.history:
            check_history_lengths(place, parts, check_arrays(place.history, run_id=parts.run_id))
        if place.is_finished:
            read_summary(place, parts.run_id)
    except (ValueError, OSError) as error:
        return str(error)
    return ""
