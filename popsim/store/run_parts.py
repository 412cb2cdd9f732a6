"""The parts of a run, and the check that they belong together.

Each run, and each training in a folder of its own, has a random identity. Its checkpoints, history files, log
lines and summary carry it, and `training.json` lists what must exist. A part that is missing or was copied
from another run is therefore detected, even if it is intact in itself.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from popsim._checks import warn_caller
from popsim.store.arrays.inspection import check_arrays
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import CorruptDataError, MismatchError, missing_file
from popsim.store.identity import RUN_ID, check_run_id, is_run_id
from popsim.store.json_files import read_json_lines, read_sealed_json, stream_json_lines
from popsim.store.run_folder import FORMAT, RunFolder, read_description
from popsim.version import __version__

__all__ = [
    "RunParts",
    "check_history_lengths",
    "check_parts",
    "lost_checkpoints",
    "missing_checkpoints",
    "own_checkpoints",
    "read_log",
    "read_parts",
    "read_summary",
    "run_id_of",
    "stream_log",
]


@dataclasses.dataclass(frozen=True)
class RunParts:
    """What a run folder must contain, as of the last write of `training.json`.

    - `run_id`: the identity of the run.
    - `checkpoints`: the steps of the checkpoints.
    - `history`: the number of rows of the history, per growing axis.
    - `n_log_lines`: the number of lines of the log.
    - `of_experiment`: whether there must be a `run.json`; None if that is not known.
    """

    run_id: str
    checkpoints: tuple[int, ...] = ()
    history: Mapping[str, int] = dataclasses.field(default_factory=dict)
    n_log_lines: int = 0
    of_experiment: bool | None = None

    def described(self) -> dict[str, Any]:
        """Return the content of `training.json`."""
        return {
            "format": FORMAT,
            "popsim": __version__,
            RUN_ID: self.run_id,
            "checkpoints": list(self.checkpoints),
            "history": dict(self.history),
            "n_log_lines": self.n_log_lines,
            "of_experiment": self.of_experiment,
        }


def run_id_of(folder: RunFolder) -> str:
    """Return the identity of a run from `run.json` or, without an experiment, from `training.json`.

    **Raises:** `CorruptDataError` if there is none; otherwise as `read_description`.
    """
    path = folder.description if folder.description.is_file() else folder.training
    return _run_id(read_description(path), path)


def _run_id(described: Mapping[str, Any], path: Path) -> str:
    if not is_run_id(stored_id := described.get(RUN_ID)):
        raise CorruptDataError(f"{path} must have the identity of a run, got {stored_id!r}.")
    return stored_id


def read_parts(folder: RunFolder) -> RunParts:
    """Return what must exist; an empty record for a run whose training has not begun.

    **Raises:** `MismatchError` if `training.json` and `run.json` are of different runs; `CorruptDataError` if
    `training.json` is damaged, or missing although other files of a training exist, or `run.json` is missing.
    """
    present = folder.present_of_training()
    if not folder.training.exists():
        if present:
            raise CorruptDataError(
                f"there must be a file {folder.training} beside {present[0]}; it is missing."
            )
        return RunParts(run_id_of(folder))
    description = read_description(folder.training)
    check_description(folder, description)
    has_run = folder.description.is_file()
    run_id = run_id_of(folder) if has_run else _run_id(description, folder.training)
    check_run_id(description.get(RUN_ID), run_id, f"{folder.training}, beside {folder.description.name},")
    try:
        history = {str(axis): int(length) for axis, length in description["history"].items()}
        steps = tuple(int(step) for step in description["checkpoints"])
        return RunParts(
            run_id, steps, history, int(description["n_log_lines"]), description.get("of_experiment")
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDataError(f"{folder.training} must say what a training wrote: {error!r}.") from None


def check_description(folder: RunFolder, described: Mapping[str, Any]) -> None:
    """Check that the `run.json` of a training by an experiment is not lost.

    **Arguments:**

    - `folder`: the folder.
    - `described`: the content of its training.json.

    **Raises:** `CorruptDataError` naming it.
    """
    if folder.description.is_file():
        return
    of_experiment = described.get("of_experiment")
    if of_experiment is None:  # written by an earlier popsim
        with contextlib.suppress(ValueError, OSError):  # a file of that name may be of somebody else
            of_experiment = read_sealed_json(folder.summary).get(RUN_ID) == described.get(RUN_ID)
    if of_experiment:
        raise missing_file(folder.description)


def missing_checkpoints(folder: RunFolder, parts: RunParts) -> list[int]:
    """Return the steps of lost checkpoints, if fewer exist than listed: saving adds one before it deletes."""
    steps = Checkpoints(folder.checkpoints).steps()
    return [] if len(steps) >= len(parts.checkpoints) else sorted({*parts.checkpoints} - {*steps})


def lost_checkpoints(folder: RunFolder, parts: RunParts) -> str:
    """Return a message on `missing_checkpoints`, without a full stop; empty if there are none."""
    steps = ", ".join(map(str, missing_checkpoints(folder, parts)))
    if not steps:
        return ""
    return f"there must be checkpoints after {steps} batches in {folder.checkpoints}; they are missing"


def own_checkpoints(folder: RunFolder, parts: RunParts) -> Checkpoints:
    """Return the checkpoints of a run, with a warning if some are lost and the newest of the others is used.

    **Raises:** `MismatchError` if one is of another run; `CorruptDataError` if all are lost.
    """
    checkpoints = Checkpoints(folder.checkpoints, run_id=parts.run_id)
    for step in checkpoints.steps():
        try:
            checkpoints.check(step)
        except MismatchError:
            raise
        except ValueError:  # damaged, so skipped when it is read, or deleted meanwhile
            continue
    if lost := lost_checkpoints(folder, parts):
        if not checkpoints.steps():
            raise CorruptDataError(f"there must be a checkpoint in {folder.checkpoints}; it is missing.")
        warn_caller(f"{lost}: the newest of the others is taken.")
    return checkpoints


def check_history_lengths(folder: RunFolder, parts: RunParts, lengths: Mapping[str, int]) -> None:
    """**Raises:** `CorruptDataError` if the history, with these numbers of rows, has lost some."""
    for axis, length in parts.history.items():
        if (n_rows := lengths.get(axis, 0)) < length:
            raise CorruptDataError(f"{folder.history} must have {length} rows along {axis!r}, got {n_rows}.")


def check_log_length(folder: RunFolder, parts: RunParts, n_lines: int) -> None:
    """**Raises:** `CorruptDataError` if the log, with this number of lines, has lost some."""
    if n_lines < parts.n_log_lines:
        raise CorruptDataError(f"{folder.log} must have {parts.n_log_lines} lines, got {n_lines}.")


def stream_log(folder: RunFolder, parts: RunParts) -> Iterator[dict[str, Any]]:
    """Yield the lines of the log one at a time.

    **Raises:** `MismatchError` if one is of another run; `CorruptDataError` if some are damaged or missing.
    """
    yield from _log_lines(folder, parts, stream_json_lines)


def read_log(folder: RunFolder, parts: RunParts) -> list[dict[str, Any]]:
    """Return all lines of the log.

    **Raises:** as `stream_log`; also `CorruptDataError` if the log is larger than some hundred MB.
    """
    return list(_log_lines(folder, parts, read_json_lines))


def _log_lines(
    folder: RunFolder, parts: RunParts, read: Callable[[Path], Iterable[Any]]
) -> Iterator[dict[str, Any]]:
    number = 0
    for line in read(folder.log) if parts.n_log_lines or folder.log.exists() else ():
        number += 1
        stored_id = line.get(RUN_ID) if isinstance(line, dict) else None
        check_run_id(stored_id, parts.run_id, f"line {number} of {folder.log}")
        if type(line.get("batch")) is not int:
            raise CorruptDataError(f"line {number} of {folder.log} must have its batch; it is damaged.")
        yield line
    check_log_length(folder, parts, number)


def read_summary(folder: RunFolder, run_id: str) -> dict[str, Any]:
    """Return the figures of merit of a finished run.

    **Raises:** `MismatchError` if they are of another run; `CorruptDataError` if they are damaged or missing.
    """
    summary = read_sealed_json(folder.summary)
    check_run_id(summary.pop(RUN_ID, None), run_id, folder.summary)
    return summary


def check_parts(folder: RunFolder) -> RunParts:
    """Check for missing parts and parts of another run before a run continues.

    A missing checkpoint only gives a warning, as another one takes its place; so does a damaged one of a
    finished run. Only a small part of the history is read.

    **Returns:** what must exist.

    **Raises:** `MismatchError` naming a part of another run; `CorruptDataError` naming one that is missing or
    visibly damaged.
    """
    parts = read_parts(folder)
    checkpoints = own_checkpoints(folder, parts)
    if folder.is_finished:
        read_summary(folder, parts.run_id)
        for step in checkpoints.steps():
            try:
                checkpoints.verify(step)
            except CorruptDataError as error:
                warn_caller(f"a checkpoint is damaged: {error}")
    elif not checkpoints.steps():  # leftovers of an interrupted start are of no use
        return parts
    for _ in stream_log(folder, parts):
        pass
    check_history_lengths(folder, parts, check_arrays(folder.history, run_id=parts.run_id))
    return parts
