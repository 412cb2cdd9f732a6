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
from popsim.store.identity import RUN_ID, check_run_id
from popsim.store.json_files import read_json_lines, read_sealed_json, stream_json_lines, write_sealed_json
from popsim.store.run_folder import DESCRIPTION, DescribedRun, RunFolder
from popsim.version import __version__

__all__ = ["RunParts", "check_parts", "read_parts", "read_summary", "write_summary"]


@dataclasses.dataclass(frozen=True)
class RunParts:
    """What a run folder must contain, as of the last write of `training.json`.

    - `folder`: the folder.
    - `run_id`: the identity of the run.
    - `checkpoints`: the steps of the checkpoints.
    - `history`: the number of rows of the history, per growing axis.
    - `n_log_lines`: the number of lines of the log.
    - `of_experiment`: whether there must be a `run.json`; None if that is not known.
    """

    folder: RunFolder
    run_id: str
    checkpoints: tuple[int, ...] = ()
    history: Mapping[str, int] = dataclasses.field(default_factory=dict)
    n_log_lines: int = 0
    of_experiment: bool | None = None

    def write(self) -> None:
        """Write `training.json`; the folder must be locked."""
        content = {
            "popsim": __version__,
            RUN_ID: self.run_id,
            "checkpoints": list(self.checkpoints),
            "history": dict(self.history),
            "n_log_lines": self.n_log_lines,
            "of_experiment": self.of_experiment,
        }
        DESCRIPTION.write(self.folder.training, content)

    def missing_checkpoints(self) -> list[int]:
        """Return the steps of lost checkpoints if fewer exist than listed: saving adds before it deletes."""
        steps = Checkpoints(self.folder.checkpoints).steps()
        return [] if len(steps) >= len(self.checkpoints) else sorted({*self.checkpoints} - {*steps})

    def lost_checkpoints(self) -> str:
        """Return a message on `missing_checkpoints`, without a full stop; empty if there are none."""
        steps = ", ".join(map(str, self.missing_checkpoints()))
        if not steps:
            return ""
        return (
            f"there must be checkpoints after {steps} batches in {self.folder.checkpoints}; they are missing"
        )

    def all_checkpoints(self) -> Checkpoints:
        """Return the checkpoints, of which none is checked yet."""
        return Checkpoints(self.folder.checkpoints, run_id=self.run_id)

    def open_checkpoints(self) -> Checkpoints:
        """Return the checkpoints, with a warning if some are lost and the newest of the others is used.

        **Raises:** `MismatchError` if one is of another run; `CorruptDataError` if all are lost.
        """
        checkpoints = self.all_checkpoints()
        for step in checkpoints.steps():
            try:
                checkpoints.check(step)
            except MismatchError:
                raise
            except ValueError:  # damaged, so skipped when it is read, or deleted meanwhile
                continue
        if lost := self.lost_checkpoints():
            if not checkpoints.steps():
                raise CorruptDataError(
                    f"there must be a checkpoint in {self.folder.checkpoints}; it is missing."
                )
            warn_caller(f"{lost}: the newest of the others is taken.")
        return checkpoints

    def check_history_lengths(self, lengths: Mapping[str, int]) -> None:
        """**Raises:** `CorruptDataError` if the history, with these numbers of rows, has lost some."""
        for axis, length in self.history.items():
            if (n_rows := lengths.get(axis, 0)) < length:
                raise CorruptDataError(
                    f"{self.folder.history} must have {length} rows along {axis!r}, got {n_rows}."
                )

    def check_history(self) -> None:
        """Check the forms of the arrays of the history, and that no rows are lost."""
        self.check_history_lengths(check_arrays(self.folder.history, run_id=self.run_id))

    def check_log(self) -> None:
        """Check that the lines of the log are of this run, and that none is lost; errors as `stream_log`."""
        for _ in self.stream_log():
            pass

    def stream_log(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the log one at a time.

        **Raises:** `MismatchError` if one is of another run; `CorruptDataError` if some are damaged or
        missing.
        """
        yield from self._log_lines(stream_json_lines)

    def read_log(self) -> list[dict[str, Any]]:
        """Return all lines of the log.

        **Raises:** as `stream_log`; also `CorruptDataError` if the log is larger than some hundred MB.
        """
        return list(self._log_lines(read_json_lines))

    def _log_lines(self, read: Callable[[Path], Iterable[Any]]) -> Iterator[dict[str, Any]]:
        log, number = self.folder.log, 0
        for line in read(log) if self.n_log_lines or log.exists() else ():
            number += 1
            stored_id = line.get(RUN_ID) if isinstance(line, dict) else None
            check_run_id(stored_id, self.run_id, f"line {number} of {log}")
            if type(line.get("batch")) is not int:
                raise CorruptDataError(f"line {number} of {log} must have its batch; it is damaged.")
            yield line
        if number < self.n_log_lines:
            raise CorruptDataError(f"{log} must have {self.n_log_lines} lines, got {number}.")


def read_parts(described: DescribedRun) -> RunParts:
    """Return what must exist; an empty record for a run whose training has not begun.

    **Raises:** `MismatchError` if `training.json` and `run.json` are of different runs; `CorruptDataError` if
    `training.json` is damaged, or missing although other files of a training exist, or `run.json` is missing.
    """
    folder = described.folder
    if not folder.training.exists():
        if present := folder.existing_training_files():
            raise CorruptDataError(
                f"there must be a file {folder.training} beside {present[0]}; it is missing."
            )
        return RunParts(folder, described.run_id)
    if described.is_run:
        content = DESCRIPTION.read(folder.training)
        place = f"{folder.training}, beside {folder.description.name},"
        check_run_id(content.get(RUN_ID), described.run_id, place)
    else:
        content = described.content
        _check_description(folder, content)
    try:
        history = {str(axis): int(length) for axis, length in content["history"].items()}
        steps = tuple(int(step) for step in content["checkpoints"])
        n_log_lines, of_experiment = int(content["n_log_lines"]), content.get("of_experiment")
        return RunParts(folder, described.run_id, steps, history, n_log_lines, of_experiment)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptDataError(f"{folder.training} must say what a training wrote: {error!r}.") from None


def _check_description(folder: RunFolder, content: Mapping[str, Any]) -> None:
    """Check that the `run.json` of a training by an experiment is not lost.

    **Arguments:**

    - `folder`: a folder without a `run.json`.
    - `content`: the content of its training.json.

    **Raises:** `CorruptDataError` naming it.
    """
    of_experiment = content.get("of_experiment")
    if of_experiment is None:  # written by an earlier popsim
        with contextlib.suppress(ValueError, OSError):  # a file of that name may be of somebody else
            of_experiment = read_sealed_json(folder.summary).get(RUN_ID) == content.get(RUN_ID)
    if of_experiment:
        raise missing_file(folder.description)


def read_summary(described: DescribedRun) -> dict[str, Any]:
    """Return the metrics of a finished run.

    **Raises:** `MismatchError` if they are of another run; `CorruptDataError` if they are damaged or missing.
    """
    path = described.folder.summary
    summary = read_sealed_json(path)
    check_run_id(summary.pop(RUN_ID, None), described.run_id, path)
    return summary


def write_summary(described: DescribedRun, summary: Mapping[str, Any]) -> None:
    """Write the metrics of a run, which is then finished; its folder must be locked."""
    write_sealed_json(described.folder.summary, {**summary, RUN_ID: described.run_id})


def check_parts(described: DescribedRun) -> RunParts:
    """Check for missing parts and parts of another run before a run continues.

    A missing checkpoint only gives a warning, as another one takes its place; so does a damaged one of a
    finished run. Only a small part of the history is read.

    **Returns:** what must exist.

    **Raises:** `MismatchError` naming a part of another run; `CorruptDataError` naming one that is missing or
    visibly damaged.
    """
    parts = read_parts(described)
    checkpoints = parts.open_checkpoints()
    if described.is_finished:
        read_summary(described)
        for step in checkpoints.steps():
            try:
                checkpoints.verify(step)
            except CorruptDataError as error:
                warn_caller(f"a checkpoint is damaged: {error}")
    elif not checkpoints.steps():  # leftovers of an interrupted start are of no use
        return parts
    parts.check_log()
    parts.check_history()
    return parts
