"""The parts of a run, and the check that they are there, whole, and belong together.

Checkpoints, history files, log lines and summary carry the identity of the run, and `training.json` lists
what must exist: a part that is missing or was copied from another run is detected.
"""

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from popsim._shared.checks import warn_caller
from popsim.store.array_group import CommitRecord
from popsim.store.checkpoints import Checkpoints
from popsim.store.files import CorruptDataError, MismatchError, files_below, missing_file
from popsim.store.identity import RUN_ID, check_run_id
from popsim.store.json_files import read_sealed_json, stream_json_lines, write_sealed_json
from popsim.store.run_folder import DescribedRun, RunFolder
from popsim.version import __version__

__all__ = ["RunParts", "check_parts", "damage_of_run", "read_parts", "read_summary", "write_summary"]

Damage = dict[str, ValueError | OSError]
"""What is wrong, by the path of a file or a folder relative to that of the run."""


@dataclasses.dataclass(frozen=True)
class RunParts:
    """What a run folder must contain, as of the last write of `training.json`."""

    folder: RunFolder
    run_id: str
    checkpoints: tuple[int, ...] = ()  # their steps
    history: Mapping[str, int] = dataclasses.field(default_factory=dict)  # rows by growing axis
    n_log_lines: int = 0
    of_experiment: bool | None = None  # whether there must be a `run.json`; None if that is not known

    def write(self) -> None:
        """Write `training.json`; the folder must be locked."""
        entries = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)[1:]}
        write_sealed_json(self.folder.training, {"popsim": __version__, **entries})

    def missing_checkpoints(self) -> list[int]:
        """Return the steps of lost checkpoints: of those that are listed, and were not replaced."""
        steps = Checkpoints(self.folder.checkpoints).steps()
        # One that is newer than all that are listed is there while a training saves, which then deletes.
        is_replaced = bool(steps) and steps[-1] > max(self.checkpoints, default=-1)
        return [] if is_replaced else sorted({*self.checkpoints} - {*steps})

    def open_checkpoints(self) -> Checkpoints:
        """Return the checkpoints, with a warning if some are lost; raises `CorruptDataError` if all are."""
        checkpoints = Checkpoints(self.folder.checkpoints, run_id=self.run_id)
        if lost := self.missing_checkpoints():
            if not checkpoints.steps():
                raise CorruptDataError(f"there must be a checkpoint in {checkpoints.path}; it is missing.")
            warn_caller(
                f"there must be checkpoints after {', '.join(map(str, lost))} batches in "
                f"{checkpoints.path}; they are missing: the newest of the others is taken."
            )
        return checkpoints

    def check_history_lengths(self, lengths: Mapping[str, int]) -> None:
        """Raise `CorruptDataError` if the history, with these numbers of rows, has lost some."""
        if any(lengths.get(axis, 0) < length for axis, length in self.history.items()):
            raise CorruptDataError(
                f"{self.folder.history} must have {dict(self.history)} rows, got {dict(lengths)}."
            )

    def stream_log(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the log; raises `ValueError` if some are damaged, missing, or of another run."""
        log, number = self.folder.log, 0
        lines = stream_json_lines(log) if self.n_log_lines or log.exists() else ()
        for number, line in enumerate(lines, 1):
            stored_id = line.get(RUN_ID) if isinstance(line, dict) else None
            check_run_id(stored_id, self.run_id, f"line {number} of {log}")
            yield line
        if number < self.n_log_lines:
            raise CorruptDataError(f"{log} must have {self.n_log_lines} lines, got {number}.")

    def damage(self, *, every_byte: bool) -> Damage:
        """Return what is wrong with checkpoints, history and log, or just with what is at their ends."""
        log = problem_of(self.folder.log.name, lambda: deque(self.stream_log(), maxlen=0))
        return dict(self._damaged_checkpoints(every_byte)) | dict(self._damaged_history(every_byte)) | log

    def _damaged_checkpoints(self, every_byte: bool) -> Iterator[tuple[str, ValueError | OSError]]:
        checkpoints = Checkpoints(self.folder.checkpoints, run_id=self.run_id)
        name, steps = self.folder.checkpoints.name, checkpoints.steps()
        for step in steps if every_byte else steps[-1:]:
            file = checkpoints.file(step)
            read = functools.partial(checkpoints.verify, step, every_byte=every_byte)
            problem = problem_of(f"{name}/{file.name}", read)
            if file.exists():  # else a newer one has replaced it
                yield from problem.items()
        if not steps and (self.folder.is_finished or self.checkpoints):
            yield name, CorruptDataError(f"there must be a checkpoint in {checkpoints.path}; there is none.")
            return
        for file in map(checkpoints.file, self.missing_checkpoints()):
            yield f"{name}/{file.name}", missing_file(file)

    def _damaged_history(self, every_byte: bool) -> Iterator[tuple[str, ValueError | OSError]]:
        history, checkpoints = self.folder.history, Checkpoints(self.folder.checkpoints)
        if not ((history / "zarr.json").exists() or self.history or checkpoints.steps()):
            return
        try:
            record = CommitRecord.read(history, self.run_id)
            for file, error in record.damage(every_byte=every_byte):
                yield f"{history.name}/{file}", error
            self.check_history_lengths(record.lengths)
        except (ValueError, OSError) as error:
            yield history.name, error


def problem_of(name: str, read: Callable[[], object]) -> Damage:
    """Return the error of a read by `name`; none if it succeeds."""
    try:
        read()
    except (ValueError, OSError) as error:
        return {name: error}
    return {}


def damage_of_run(described: DescribedRun) -> Damage:
    """Read every byte of a run, also in progress, or of a training, and return what is wrong, by file.

    Files must be as they were written, and of this run; none may be missing, and no figure that was drawn.
    """
    # Again if something is wrong: another process may have resumed it meanwhile, and cut its history.
    return _walk(described) and _walk(described)


def _walk(described: DescribedRun) -> Damage:
    folder, parts = described.folder, RunParts(described.folder, described.run_id)
    damage: Damage = {}
    try:
        parts = read_parts(described)
    except (ValueError, OSError) as error:
        is_lost = not described.is_run and str(folder.description) in str(error)
        damage[(folder.description if is_lost else folder.training).name] = error
    damage |= parts.damage(every_byte=True)
    if not described.is_run:  # of a script, whose folder may have files of others
        return damage
    if described.is_finished or described.content.get("finished"):
        damage |= problem_of(folder.summary.name, lambda: read_summary(described))
    figures = {name for name, _ in files_below(folder.figures)}
    advice = f"must be there; it is missing. To draw it again: {folder.command('show')}"
    lost = sorted({*described.content.get("figures", ())} - figures)
    return damage | {f"{folder.figures.name}/{name}": CorruptDataError(advice) for name in lost}


def read_parts(described: DescribedRun) -> RunParts:
    """Return what must exist; an empty record for a run whose training has not begun.

    **Raises:** `MismatchError` if `training.json` and `run.json` are of different runs; `CorruptDataError` if
    one of them is damaged, or missing beside files that it must describe.
    """
    folder = described.folder
    if not (training := folder.training).exists():
        if present := folder.existing_training_files():
            raise CorruptDataError(f"there must be a file {training} beside {present[0]}; it is missing.")
        return RunParts(folder, described.run_id)
    content = read_sealed_json(training)
    check_run_id(content.get(RUN_ID), described.run_id, f"{training}, beside {described.path.name},")
    if not described.is_run and content.get("of_experiment"):
        raise missing_file(folder.description)
    entries = {field.name: content.get(field.name) for field in dataclasses.fields(RunParts)[2:]}
    return RunParts(folder, described.run_id, **{**entries, "checkpoints": tuple(content["checkpoints"])})


def read_summary(described: DescribedRun) -> dict[str, Any]:
    """Return the metrics of a finished run; raises `ValueError` if they are damaged or of another run."""
    path = described.folder.summary
    summary = read_sealed_json(path)
    check_run_id(summary.pop(RUN_ID, None), described.run_id, path)
    return {name: value for name, value in summary.items() if name != "format"}


def write_summary(described: DescribedRun, summary: Mapping[str, Any]) -> None:
    """Write the metrics of a run, which is then finished; its folder must be locked."""
    write_sealed_json(described.folder.summary, {**summary, RUN_ID: described.run_id})


def check_parts(described: DescribedRun) -> RunParts:
    """Return what must exist, after a quick check for parts that are missing or of another run.

    A missing checkpoint, or a damaged one of a finished run, only gives a warning.

    **Raises:** `MismatchError` or `CorruptDataError` naming the part.
    """
    parts = read_parts(described)
    checkpoints = parts.open_checkpoints()
    if described.is_finished:
        read_summary(described)
    elif not checkpoints.steps():  # leftovers of an interrupted start are of no use
        return parts
    for name, error in parts.damage(every_byte=False).items():
        is_checkpoint = name.startswith(f"{described.folder.checkpoints.name}/")
        if not is_checkpoint or isinstance(error, MismatchError):
            raise error
        if described.is_finished:
            warn_caller(f"a checkpoint is damaged: {error}")
    for step in checkpoints.steps()[:-1]:  # training continues from the newest
        read = functools.partial(checkpoints.verify, step, every_byte=False)
        for error in problem_of("", read).values():
            warn_caller(f"an older checkpoint is damaged: {error}")
    return parts
