"""Checks of the cells of a sweep: that each is what the plan says, and that no file of it is lost."""

from popsim.experiments import read_run_info
from popsim.experiments.described_run import differences_from_plan
from popsim.store import CorruptDataError, MismatchError
from popsim.store._run_parts import check_history_lengths, missing_checkpoints, read_parts, run_id_of
from popsim.store.run_folder import read_description
from popsim.sweeps.folder import SweepFolder
from popsim.sweeps.sweep import Sweep

__all__ = ["check_cell", "visible_damage"]


def check_cell(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> str:
    """Check that the run of a cell is what the plan of the sweep says of it; call this before it is used.

    **Returns:** the identity of the run.

    **Raises:** `MismatchError` if the run is another cell, or of another experiment or of other settings;
    `CorruptDataError` if its `run.json` is missing or was changed, or a part of it is a link.
    """
    place = folder.cell(number)
    place.check_plain()
    if not place.description.exists():
        raise CorruptDataError(f"there must be a file {place.description}; it is missing.")
    described = read_description(place.description)
    if (part_of := described.get("part_of")) != {"sweep": sweep_id, "cell": number}:
        raise MismatchError(
            f"{place.path} must be cell {number} of this sweep, got a part of {part_of!r:.200}."
        )
    differences = differences_from_plan(described, sweep.cell(number).experiment, sweep.recording)
    batch_size = described.get("member_batch_size", sweep.member_batch_size)
    if batch_size != sweep.member_batch_size:
        differences.append(("member_batch_size", batch_size, sweep.member_batch_size))
    if differences:
        told = "; ".join(
            f"`{name}` is {before!r} there and {now!r} here" for name, before, now in differences
        )
        raise MismatchError(f"{place.description} must be as {folder.description} plans it: {told:.500}.")
    return run_id_of(place)


def visible_damage(folder: SweepFolder, sweep: Sweep, sweep_id: str, number: int) -> str:
    """Return what is wrong with a cell as far as can be seen without reading it all; empty if nothing is.

    Damage within files is not seen: `verify_sweep` reads them.
    """
    place = folder.cell(number)
    try:
        check_cell(folder, sweep, sweep_id, number)
        parts = read_parts(place)  # first: what is read later may only be more
        info = read_run_info(place.path)
        if missing := missing_checkpoints(place, parts):
            return (
                f"there must be checkpoints after {', '.join(map(str, missing))} batches; they are missing."
            )
        if info.n_log_lines < parts.n_log_lines:
            return f"{place.log} must have {parts.n_log_lines} lines, got {info.n_log_lines}."
        if not info.history_damage:
            lengths = {array.axes[0]: array.shape[0] for array in info.arrays if array.axes}
            check_history_lengths(place, parts, lengths)
    except (ValueError, OSError) as error:
        return str(error)
    damages = [info.history_damage, *(array.damage for array in info.arrays)]
    damages += [checkpoint.damage for checkpoint in info.checkpoints[-1:]]
    return next(filter(None, damages), "")
