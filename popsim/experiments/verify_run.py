"""Whether all files of a run are as they were written."""

from collections.abc import Callable
from pathlib import Path

from popsim.experiments.log_summary import damaged_lines
from popsim.experiments.run_info import describe_folder
from popsim.store import Checkpoints, RunFolder, open_arrays, verify_arrays
from popsim.store.run_parts import (
    RunParts,
    check_history_lengths,
    missing_checkpoints,
    read_log,
    read_parts,
    read_summary,
    run_id_of,
)


def verify_run(path: str | Path) -> dict[str, str]:
    """Read all that a run, or a training in its folder, holds, a part at a time.

    All but the log is compared with checksums; the log must hold logging points. All parts must be
    of this run, and none may be missing. A run that goes on may be verified as well.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Returns:** what is wrong, by file or checkpoint, relative to `path`; nothing if all is sound.

    **Raises:** `ValueError` if there is no run, or its run.json is damaged; `DamagedError` if a part of it is
    a link, a pipe or a device; `MismatchError` if it is of another format.
    """
    folder = RunFolder(Path(path))
    description = describe_folder(folder)
    parts, damage = RunParts(run_id_of(folder)), {}
    try:
        parts = read_parts(folder)
    except ValueError as error:
        damage[folder.training.name] = str(error)
    damage |= _damaged_checkpoints(folder, parts) | _damaged_history(folder, parts)
    damage |= _damaged_log(folder, parts)
    is_finished = folder.is_finished or description.get("finished")
    if is_finished and (said := _complaint(lambda: read_summary(folder, parts.run_id))):
        damage[folder.summary.name] = said
    return damage


def _damaged_checkpoints(folder: RunFolder, parts: RunParts) -> dict[str, str]:
    checkpoints, damage = Checkpoints(folder.checkpoints, run_id=parts.run_id), {}
    for step in checkpoints.steps():
        if said := _complaint(lambda step=step: checkpoints.verify(step)):
            damage[f"{folder.checkpoints.name}/{step:09d}"] = said
    there = checkpoints.steps()
    damage = {name: said for name, said in damage.items() if int(name[-9:]) in there}
    if not there and (folder.is_finished or parts.checkpoints):
        return damage | {folder.checkpoints.name: "there must be a checkpoint; there is none"}
    lost = [f"{folder.checkpoints.name}/{step:09d}" for step in missing_checkpoints(folder, parts)]
    return damage | dict.fromkeys(lost, "must be there; it is missing")


def _damaged_log(folder: RunFolder, parts: RunParts) -> dict[str, str]:
    try:
        lines = damaged_lines(folder.log) if folder.log.exists() else []
    except ValueError as error:
        return {folder.log.name: str(error)}
    if lines:
        return {
            folder.log.name: f"these of its lines are no logging points: {', '.join(map(str, lines[:10]))}"
        }
    said = _complaint(lambda: read_log(folder, parts))
    return {folder.log.name: said} if said else {}


def _damaged_history(folder: RunFolder, parts: RunParts) -> dict[str, str]:
    name = folder.history.name
    if not (folder.history.exists() or parts.history or Checkpoints(folder.checkpoints).steps()):
        return {}
    try:
        files = verify_arrays(folder.history, run_id=parts.run_id)
        if not files:
            check_history_lengths(folder, parts, open_arrays(folder.history).sizes)
    except ValueError as error:
        return {name: str(error)}
    return {f"{name}/{file}": "is damaged, missing, or a part of another run" for file in files}


def _complaint(read: Callable[[], object]) -> str:
    """What is wrong with something that is read; empty if nothing is."""
    try:
        read()
    except (ValueError, OSError) as error:
        return str(error)
    return ""
