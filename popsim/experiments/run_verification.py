"""Verify the files of a run."""

from collections.abc import Callable
from pathlib import Path

from popsim.experiments.logged_losses import logged_losses
from popsim.experiments.run_info import read_run_info
from popsim.store import Checkpoints, open_arrays, verify_arrays
from popsim.store.files import files_below
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import RunParts, read_parts, read_summary

__all__ = ["verify_run"]

UNCHECKED = "the numbers in log.jsonl and the order of its lines; what is in figures/ and tensorboard/"
"""What `verify_run` does not check."""


def verify_run(path: str | Path) -> dict[str, str]:
    """Check a run, or a training in its folder, one part at a time.

    `run.json`, `training.json`, `run.yaml`, the summary, the checkpoints and the history are compared with
    their checksums, and must be of this run. None of these may be missing, and no figure that was drawn. The
    log must have its lines, each a log point of this run: their numbers and their order are not checked, nor
    what is in the figures and in `tensorboard/`. A run in progress may be verified as well.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Returns:** the problems by file or checkpoint, relative to `path`; empty if there are none.

    **Raises:** as `read_run_info`.
    """
    return damage_of_run(read_run_info(path).described)


def damage_of_run(described: DescribedRun) -> dict[str, str]:
    """Return the problems of a run whose description is read; see `verify_run`."""
    folder, parts, damage = described.folder, RunParts(described.folder, described.run_id), {}
    try:
        parts = read_parts(described)
    except ValueError as error:
        is_lost = not described.is_run and str(folder.description) in str(error)
        damage[(folder.description if is_lost else folder.training).name] = str(error)
    damage |= _damaged_checkpoints(parts) | _damaged_history(parts)
    if problem := complaint(lambda: _check_log(parts)):
        damage[folder.log.name] = problem
    if not described.is_run:  # of a script, whose folder may have files of others
        return damage
    is_finished = described.is_finished or described.content.get("finished")
    if is_finished and (problem := complaint(lambda: read_summary(described))):
        damage[folder.summary.name] = problem
    has_begun = folder.training.exists() or folder.config.exists()  # else killed before its first checkpoint
    if has_begun and (problem := folder.config_problem(described.content)):
        damage[folder.config.name] = problem
    lost = sorted({*described.content.get("figures", ())} - {name for name, _ in files_below(folder.figures)})
    advice = f"must be there; it is missing. To draw it again: {folder.command('show')}"
    return damage | {f"{folder.figures.name}/{name}": advice for name in lost}


def _check_log(parts: RunParts) -> None:
    for line in parts.stream_log():
        logged_losses(line)


def _damaged_checkpoints(parts: RunParts) -> dict[str, str]:
    folder, checkpoints = parts.folder, parts.all_checkpoints()
    problems = {step: complaint(lambda step=step: checkpoints.verify(step)) for step in checkpoints.steps()}
    steps = checkpoints.steps()
    if not steps and (folder.is_finished or parts.checkpoints):
        return {folder.checkpoints.name: "there must be a checkpoint; there is none"}
    problems = {step: problem for step, problem in problems.items() if problem and step in steps}
    problems |= dict.fromkeys(parts.missing_checkpoints(), "must be there; it is missing")
    return {
        f"{folder.checkpoints.name}/{step:09d}.safetensors": problem for step, problem in problems.items()
    }


def _damaged_history(parts: RunParts) -> dict[str, str]:
    folder, name = parts.folder, parts.folder.history.name
    if not (folder.history.exists() or parts.history or Checkpoints(folder.checkpoints).steps()):
        return {}
    try:
        files = verify_arrays(folder.history, run_id=parts.run_id)
        if not files:
            parts.check_history_lengths(open_arrays(folder.history).sizes)
    except ValueError as error:
        return {name: str(error)}
    return {f"{name}/{file}": "is damaged, missing, or a part of another run" for file in files}


def complaint(read: Callable[[], object]) -> str:
    """Return the message of the error that a read raises; empty if it succeeds."""
    try:
        read()
    except (ValueError, OSError) as error:
        return str(error)
    return ""
