"""Inspect and verify a run folder without rebuilding the experiment."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from popsim._text_checks import as_path, check_path
from popsim.experiments.logged_losses import LoggedLosses, last_losses
from popsim.experiments.registry import EXPERIMENTS, setting_text
from popsim.store import (
    Checkpoints,
    CorruptDataError,
    ListedArray,
    MismatchError,
    RunFolder,
    list_arrays,
)
from popsim.store.files import files_below
from popsim.store.identity import lock_holder
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import damage_of_run

__all__ = ["RunInfo", "read_run_info", "verify_run"]

DAMAGE = (CorruptDataError, MismatchError)
PARTS = ("checkpoints", "history", "log", "figures", "other")


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint.

    - `n_batches`: the number of training batches.
    - `written`: the time of writing, in seconds since 1970.
    - `n_bytes`: its size.
    - `damage`: the damage visible without reading its files; empty if none.
    """

    n_batches: int
    written: float
    n_bytes: int
    damage: str


@dataclasses.dataclass(frozen=True)
class RunInfo:
    """The contents of a run, or of a training without an experiment.

    - `path`: its folder.
    - `description`: the content of its run.json or training.json.
    - `changed`: the settings that differ from the defaults; None if the experiment is not registered.
    - `is_finished`: whether the run is finished; unknown, and so False, without an experiment.
    - `writer`: the process that writes it now; None if there is none.
    - `n_members`: the number of members; None for a single model, or if unknown.
    - `n_trained`: the number of numbers of one member that are trained; None if unknown.
    - `frozen`: by member, the batch from which on it is frozen.
    - `stopped`: by member, the batch from which on a population update has stopped it.
    - `losses`: the losses of the last log point; None if there is none.
    - `n_log_lines`: the number of log points.
    - `checkpoints`: the checkpoints in order.
    - `arrays`: the arrays of the history.
    - `history_damage`: the damage of the history as a whole; empty if none.
    - `n_figures`: the number of files in figures/.
    - `sizes`: the size in bytes of each part of the folder, see `PARTS`.
    """

    path: Path
    description: Mapping[str, Any]
    changed: frozenset[str] | None
    is_finished: bool
    writer: str | None
    n_members: int | None
    n_trained: int | None
    frozen: Mapping[int, int]
    stopped: Mapping[int, int]
    losses: LoggedLosses | None
    n_log_lines: int
    checkpoints: list[CheckpointInfo]
    arrays: list[ListedArray]
    history_damage: str
    n_figures: int
    sizes: Mapping[str, int]

    @property
    def experiment(self) -> str | None:
        """The name of the experiment; None for a training without one."""
        return self.description.get("experiment")

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the experiment."""
        return self.description.get("settings", {})

    @property
    def effective_settings(self) -> Mapping[str, str]:
        """The settings in effect, as text with units."""
        texts = self.description.get("in_force")
        texts = texts if isinstance(texts, dict) else {}
        return {name: str(texts.get(name, setting_text(value))) for name, value in self.settings.items()}

    @property
    def n_batches(self) -> int | None:
        """The total number of batches to train; None if unknown."""
        return self.settings.get("n_batches")

    @property
    def n_until_inactive(self) -> int | None:
        """The number of batches after which all members were frozen or stopped; None if not all are."""
        ends = {member: batch + 1 for member, batch in self.frozen.items()} | dict(self.stopped)
        return max(ends.values()) if ends and len(ends) == (self.n_members or 1) else None

    @property
    def n_saved(self) -> int:
        """The number of batches of the newest checkpoint without visible damage."""
        return max(
            (checkpoint.n_batches for checkpoint in self.checkpoints if not checkpoint.damage), default=0
        )


def read_run_info(path: str | Path) -> RunInfo:
    """Read the state of a run, finished or not, or of a training in its folder.

    Little is read, and nothing is rebuilt or written: the experiment need not be registered. Missing and
    truncated files are noticed, but damage inside files is not, see `verify_run`.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Raises:** `ValueError` if there is none, or its run.json is damaged; `CorruptDataError` if a line of the
    log is too long; `MismatchError` if it has another format.
    """
    return info_of_run(_read_description(path))


def info_of_run(described: DescribedRun) -> RunInfo:
    """Return the state of a run whose description is read; see `read_run_info`."""
    _check_settings(described)
    folder, run_id = described.folder, described.run_id
    settings = described.content.get("settings", {})
    arrays, attributes, history_damage = _history(folder, run_id)
    losses, n_log_lines = last_losses(folder.log)
    return RunInfo(
        path=folder.path,
        description=described.content,
        changed=_changed_settings(described.content.get("experiment"), settings),
        is_finished=folder.is_finished,
        writer=lock_holder(folder.path),
        n_members=settings.get("n_members", _length(arrays, "member")),
        n_trained=trained if type(trained := attributes.get("n_trained")) is int else None,
        frozen=_from_batches(attributes, "frozen_from"),
        stopped=_from_batches(attributes, "stopped_from"),
        losses=losses,
        n_log_lines=n_log_lines,
        checkpoints=_checkpoints(folder, run_id),
        arrays=arrays,
        history_damage=history_damage,
        n_figures=sum(1 for _ in files_below(folder.figures)),
        sizes=_sizes(folder),
    )


def _read_description(path: str | Path) -> DescribedRun:
    """Read the description of a run or a training."""
    folder = RunFolder(as_path("path", path))
    check_path("path", folder.path)
    if not folder.description.is_file() and not folder.training.is_file():
        raise ValueError(
            f"`path` must be the folder of a popsim run or training, got {folder.path}: "
            "it has neither run.json nor training.json."
        )
    return DescribedRun.read(folder)


def _check_settings(described: DescribedRun) -> None:
    """Raise `ValueError` unless the description of a run has what is read of it here."""
    experiment, settings = (described.content.get(name) for name in ("experiment", "settings"))
    if not described.is_run:
        return
    if not isinstance(experiment, str) or not isinstance(settings, dict):
        raise ValueError(f"{described.path} must name an experiment and its settings.")
    for name in ("n_batches", "n_members"):
        if type(settings.get(name)) is not int:
            raise ValueError(f"`{name}` in {described.path} must be a number.")


def _changed_settings(experiment: str | None, settings: Mapping[str, Any]) -> frozenset[str] | None:
    if experiment is None or experiment not in EXPERIMENTS:
        return None
    defaults = {}
    for field in dataclasses.fields(EXPERIMENTS[experiment]):
        factory = field.default_factory
        defaults[field.name] = field.default if factory is dataclasses.MISSING else factory()
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    return frozenset(
        name for name, value in values.items() if name not in defaults or value != defaults[name]
    )


def _checkpoints(folder: RunFolder, run_id: str) -> list[CheckpointInfo]:
    """Return the existing checkpoints; one may be deleted meanwhile if the run is in progress."""
    checkpoints, infos = Checkpoints(folder.checkpoints, run_id=run_id), []
    for step in checkpoints.steps():
        with contextlib.suppress(FileNotFoundError, ValueError):
            damage = complaint(lambda step=step: checkpoints.check(step), DAMAGE)
            file = checkpoints.file(step).stat()
            infos.append(CheckpointInfo(step, file.st_mtime, file.st_size, damage))
    return infos


def _history(folder: RunFolder, run_id: str) -> tuple[list[ListedArray], Mapping[str, Any], str]:
    """Return the arrays, the values kept with them, and the damage of the history as a whole."""
    try:
        return *list_arrays(folder.history, run_id=run_id), ""
    except DAMAGE as error:
        return [], {}, str(error)
    except ValueError:
        return [], {}, ""


def _length(arrays: list[ListedArray], axis: str) -> int | None:
    return next((array.shape[0] for array in arrays if array.name == axis and array.shape), None)


def _from_batches(attributes: Mapping[str, Any], name: str) -> dict[int, int]:
    try:
        from_batch = np.atleast_1d(np.asarray(attributes.get(name, []), int))
    except (TypeError, ValueError, OverflowError):
        return {}
    return {member: int(batch) for member, batch in enumerate(from_batch) if batch >= 0}


def _sizes(folder: RunFolder) -> dict[str, int]:
    names = {
        folder.checkpoints.name: "checkpoints",
        folder.history.name: "history",
        folder.log.name: "log",
        folder.figures.name: "figures",
    }
    sizes: dict[str, int] = dict.fromkeys(PARTS, 0)
    for below, _, files in os.walk(folder.path):
        within = Path(below).relative_to(folder.path).parts
        for file in files:
            try:
                n_bytes = os.lstat(os.path.join(below, file)).st_size
            except FileNotFoundError:  # deleted meanwhile by a run in progress
                continue
            sizes[names.get(within[0] if within else file, "other")] += n_bytes
    return sizes


UNCHECKED = "the numbers in log.jsonl and the order of its lines; what is in figures/ and tensorboard/"
"""What `verify_run` does not check."""


def verify_run(path: str | Path) -> dict[str, str]:
    """Check a run, or a training in its folder, one part at a time.

    Every byte of it is read, see `damage_of_run`. Of the log, the numbers and the order of lines are not
    checked, nor what is in the figures and in `tensorboard/`. A run in progress may be verified as well.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Returns:** the problems by file or checkpoint, relative to `path`; empty if there are none.

    **Raises:** `ValueError` if there is no run, or its run.json is damaged; `MismatchError` if it has another
    format.
    """
    described = _read_description(path)
    _check_settings(described)
    return {name: str(error) for name, error in damage_of_run(described).items()}


def complaint(read: Callable[[], object], errors: tuple[type[Exception], ...] = (ValueError, OSError)) -> str:
    """Return the message of the error that a read raises; empty if it succeeds."""
    try:
        read()
    except errors as error:
        return str(error)
    return ""
