"""Whether all files of a run are as they were written."""

from collections.abc import Callable
from pathlib import Path

from popsim.experiments.log_summary import damaged_lines
from popsim.experiments.run_info import describe_folder
from popsim.store import Checkpoints, RunFolder, verify_arrays
from popsim.store.json_files import read_sealed_json


def verify_run(path: str | Path) -> dict[str, str]:
    """Read all that a run, or a training in its folder, holds, a part at a time.

    All but the log is compared with checksums; the log must be JSON. A run that goes on may be verified as
    well.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Returns:** what is wrong, by file or checkpoint, relative to `path`; nothing if all is sound.

    **Raises:** `ValueError` if there is no run, or its run.json is damaged; `DamagedError` if a part of it is
    a link, a pipe or a device; `MismatchError` if it is of another format.
    """
    folder = RunFolder(Path(path))
    describe_folder(folder)
    damage = _damaged_checkpoints(folder) | _damaged_history(folder)
    if folder.log.exists():
        damage |= _damaged_log(folder)
    if folder.is_finished and (said := _complaint(lambda: read_sealed_json(folder.summary))):
        damage[folder.summary.name] = said
    return damage


def _damaged_checkpoints(folder: RunFolder) -> dict[str, str]:
    checkpoints, damage = Checkpoints(folder.checkpoints), {}
    for step in checkpoints.steps():
        if said := _complaint(lambda step=step: checkpoints.verify(step)):
            damage[f"{folder.checkpoints.name}/{step:09d}"] = said
    there = checkpoints.steps()
    if folder.is_finished and not there:
        damage[folder.checkpoints.name] = "there must be a checkpoint of a finished run; there is none"
    return {name: said for name, said in damage.items() if "/" not in name or int(name[-9:]) in there}


def _damaged_log(folder: RunFolder) -> dict[str, str]:
    try:
        lines = damaged_lines(folder.log)
    except ValueError as error:
        return {folder.log.name: str(error)}
    said = f"these of its lines hold no JSON: {', '.join(map(str, lines[:10]))}"
    return {folder.log.name: said} if lines else {}


def _damaged_history(folder: RunFolder) -> dict[str, str]:
    name = folder.history.name
    if not folder.history.exists() and not Checkpoints(folder.checkpoints).steps():
        return {}
    try:
        files = verify_arrays(folder.history)
    except ValueError as error:
        return {name: str(error)}
    return {f"{name}/{file}": "is damaged or missing" for file in files}


def _complaint(read: Callable[[], object]) -> str:
    """What is wrong with something that is read; empty if nothing is."""
    try:
        read()
    except (ValueError, OSError) as error:
        return str(error)
    return ""
