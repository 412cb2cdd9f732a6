"""What the folder of a run says, also as text, whether or not its experiment is known here."""

import contextlib
import dataclasses
import datetime
import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from popsim._shared.text_checks import align, as_path, count_text, printable, shorten, size_text, spread_text
from popsim.experiments.registry import EXPERIMENTS, setting_text
from popsim.store import Checkpoints, CorruptDataError, ListedArray, MismatchError, RunFolder, list_arrays
from popsim.store.files import files_below
from popsim.store.identity import lock_holder
from popsim.store.json_files import log_lines
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import RunParts, damage_of_run, read_parts

__all__ = ["RunInfo", "info_table", "read_run_info", "verify_run"]

PARTS = ("checkpoints", "history", "log", "figures", "other")
UNCHECKED = "the numbers in log.jsonl and the order of its lines; what is in figures/ and tensorboard/"
"""What `verify_run` does not check."""
MOST_LETTERS = 100


@dataclasses.dataclass(frozen=True)
class LoggedLosses:
    """The batch of a log point, the seconds until then, and the total losses of each member."""

    batch: int
    seconds: float
    training: Float[np.ndarray, " member"]
    validation: Float[np.ndarray, " member"]


def logged_losses(line: Any) -> LoggedLosses:
    """Return the losses in a line of a log."""
    try:
        training, validation = _total(line["loss"]), _total(line["validation_loss"])
        batch, seconds = int(line["batch"]), float(line["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"a line of a log must be a log point, got {error!r}.") from None
    return LoggedLosses(batch, seconds, training, validation)


def _total(terms: dict[str, Any]) -> Float[np.ndarray, " member"]:
    return np.sum([np.atleast_1d(np.asarray(values, float)) for values in terms.values()], axis=0)


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint: after how many batches, when it was written (s since 1970), and its size."""

    n_batches: int
    written: float
    n_bytes: int


@dataclasses.dataclass(frozen=True)
class RunInfo:
    """What the folder of a run, or of a training by a script, says of itself.

    Properties are read from disk when they are first used, and kept. Nothing is rebuilt or written, and
    damage is not looked for: see `verify_run`.

    - `described`: the folder, with its description when it was opened.
    """

    described: DescribedRun

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder.path)!r})"

    @property
    def folder(self) -> RunFolder:
        """The folder of the run, or of the training."""
        return self.described.folder

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished; unknown, and so False, without an experiment."""
        return self.described.is_run and self.folder.is_finished

    @functools.cached_property
    def parts(self) -> RunParts:
        """The identity of the run, and the list of what its folder must contain."""
        return read_parts(self.described)

    @property
    def description(self) -> Mapping[str, Any]:
        """The content of its `run.json` or `training.json`."""
        return self.described.content

    @property
    def experiment_name(self) -> str | None:
        """The name of the experiment; None for a training without one."""
        return self.description.get("experiment")

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the experiment."""
        return self.description.get("settings", {})

    @property
    def effective_settings(self) -> Mapping[str, str]:
        """The settings in effect, as text with units."""
        texts = self.description.get("in_force", {})
        return {name: str(texts.get(name, setting_text(value))) for name, value in self.settings.items()}

    @functools.cached_property
    def changed(self) -> frozenset[str] | None:
        """The settings that differ from the defaults; None if the experiment is not registered."""
        if (kind := EXPERIMENTS.get(self.experiment_name or "")) is None:
            return None
        defaults = {
            field.name: field.default_factory() if callable(field.default_factory) else field.default
            for field in dataclasses.fields(kind)
        }
        values = [(name, tuple(own) if isinstance(own, list) else own) for name, own in self.settings.items()]
        return frozenset(name for name, value in values if (name, value) not in defaults.items())

    @property
    def n_batches(self) -> int | None:
        """The total number of batches to train; None if unknown."""
        return self.settings.get("n_batches")

    @property
    def n_members(self) -> int | None:
        """The number of members; None for a single model, or if unknown."""
        return self.settings.get("n_members", self._listed[1].get("n_members"))

    @property
    def writer(self) -> str | None:
        """The process that writes the run now; None if there is none."""
        return lock_holder(self.folder.path)

    @functools.cached_property
    def checkpoints(self) -> list[CheckpointInfo]:
        """The checkpoints in order; one may be deleted meanwhile if the run is in progress."""
        checkpoints, infos = Checkpoints(self.folder.checkpoints), []
        for step in checkpoints.steps():
            with contextlib.suppress(FileNotFoundError):
                file = checkpoints.file(step).stat()
                infos.append(CheckpointInfo(step, file.st_mtime, file.st_size))
        return infos

    @property
    def n_saved(self) -> int:
        """The number of batches of the newest checkpoint."""
        return max((checkpoint.n_batches for checkpoint in self.checkpoints), default=0)

    @functools.cached_property
    def _listed(self) -> tuple[list[ListedArray], Mapping[str, Any], str]:
        try:
            return *list_arrays(self.folder.history, run_id=self.described.run_id), ""
        except (CorruptDataError, MismatchError) as error:
            return [], {}, str(error)
        except ValueError:  # there is none yet
            return [], {}, ""

    @property
    def arrays(self) -> list[ListedArray]:
        """The arrays of the history."""
        return self._listed[0]

    @property
    def history_damage(self) -> str:
        """Why the history cannot be listed; empty if it can, or there is none."""
        return self._listed[2]

    @property
    def n_trained(self) -> int | None:
        """The number of numbers of one member that are trained; None if unknown."""
        return self._listed[1].get("n_trained")

    @property
    def frozen(self) -> Mapping[int, int]:
        """By member, the batch from which on it is frozen."""
        return self._from_batches("frozen_from")

    @property
    def stopped(self) -> Mapping[int, int]:
        """By member, the batch from which on a population update has stopped it."""
        return self._from_batches("stopped_from")

    def _from_batches(self, name: str) -> dict[int, int]:
        from_batch = np.atleast_1d(np.asarray(self._listed[1].get(name, []), int))
        return {member: int(batch) for member, batch in enumerate(from_batch) if batch >= 0}

    @property
    def n_until_inactive(self) -> int | None:
        """The number of batches after which all members were frozen or stopped; None if not all are."""
        ends = {member: batch + 1 for member, batch in self.frozen.items()} | dict(self.stopped)
        return max(ends.values()) if ends and len(ends) == (self.n_members or 1) else None

    @functools.cached_property
    def _end_of_log(self) -> tuple[LoggedLosses | None, int]:
        """The losses in the last whole line of the log, and how many lines there are."""
        n_lines, last = 0, None
        for line in log_lines(self.folder.log) if self.folder.log.exists() else ():
            n_lines += 1
            last = line if line.endswith(b"\n") else last
        try:
            return (None if last is None else logged_losses(json.loads(last))), n_lines
        except ValueError:
            return None, n_lines

    @property
    def losses(self) -> LoggedLosses | None:
        """The losses of the last log point; None if there is none."""
        return self._end_of_log[0]

    @property
    def n_log_lines(self) -> int:
        """The number of log points."""
        return self._end_of_log[1]

    @property
    def n_figures(self) -> int:
        """The number of files in `figures/`."""
        return sum(1 for _ in files_below(self.folder.figures))

    @functools.cached_property
    def sizes(self) -> Mapping[str, int]:
        """The size in bytes of each part of the folder: checkpoints, history, log, figures and other."""
        sizes: dict[str, int] = dict.fromkeys(PARTS, 0)
        of_part = {getattr(self.folder, part).name: part for part in PARTS[:-1]}
        for name, file in files_below(self.folder.path):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile by a run in progress
                sizes[of_part.get(name.partition("/")[0], "other")] += file.lstat().st_size
        return sizes

    def find_damage(self) -> dict[str, str]:
        """Read every byte of the folder, see `verify_run`."""
        return {name: str(error) for name, error in damage_of_run(self.described).items()}


def read_run_info(path: str | Path) -> RunInfo:
    """Open a run, finished or not, or a training by a script, without its experiment.

    The experiment need not be registered here. `open_run` opens a run with it.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Raises:** `ValueError` if there is none; `CorruptDataError` if its description is damaged;
    `MismatchError` if it has another format.
    """
    folder = RunFolder(as_path("path", path))
    if not folder.description.is_file() and not folder.training.is_file():
        raise ValueError(
            f"`path` must be the folder of a popsim run or training, got {folder.path}: "
            "it has neither run.json nor training.json."
        )
    return RunInfo(DescribedRun.read(folder))


def verify_run(path: str | Path) -> dict[str, str]:
    """Read every byte of a run, or of a training in its folder, one part at a time, and return the damage.

    Of the log, the numbers and the order of lines are not checked, nor what is in the figures and in
    `tensorboard/`. A run in progress may be verified as well.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Returns:** the problems by file or checkpoint, relative to `path`; empty if there are none.

    **Raises:** as `read_run_info`.
    """
    return read_run_info(path).find_damage()


def info_table(info: RunInfo) -> str:
    """Format what is known of a run, by `read_run_info` or `popsim.open_run`, as text."""
    sections = [align(_overview(info)), _settings(info), *_lists(info)]
    lines = [line for section in sections if section for line in [*section, ""]]
    return "\n".join(map(printable, lines[:-1]))


def _overview(info: RunInfo) -> list[tuple[str, str]]:
    described = info.description
    rows = [
        ("run", str(info.folder.path)),
        ("experiment", info.experiment_name or "none: a training by TaskTrainer"),
        ("written by", f"popsim {described.get('popsim')}, format {described.get('format')}"),
        ("state", _state(info)),
        ("members", _members(info)),
        ("losses", _losses(info)),
    ]
    if "recording" in described:
        digits = ", half the digits" if described["recording"].get("float16") else ""
        rows.append(("recording", f"trainables: {_short(described['recording'].get('trainables'))}{digits}"))
    for name in ("devices", "engine", "checkpoint_seconds"):
        rows += [(name, _short(described[name]))] if name in described else []
    for resumption in described.get("resumed", ()):
        rows.append(("resumed", ", ".join(f"{name} {_short(value)}" for name, value in resumption.items())))
    return rows


def _state(info: RunInfo) -> str:
    end = info.n_until_inactive
    how = "frozen" if not info.stopped else "stopped" if not info.frozen else "frozen or stopped"
    if info.is_finished:
        ended = ", " if end is None else f": all members {how} after {end} of "
        return f"finished{ended}{count_text(info.settings['n_batches'], 'batch')}"
    of = "" if info.n_batches is None else f"of {info.n_batches} "
    saved = f"{info.n_saved} {of}batches saved" if info.n_saved else "nothing saved yet"
    if (writer := info.writer) is not None:
        return f"being written now by {writer}, {saved}"
    if info.experiment_name is not None:
        return f"stopped, {saved}; to continue: {info.folder.resume_command}"
    ended = f"ended, as all members were {how} after {end}"
    return f"{saved}; {'restore_checkpoint=True continues it' if end is None else ended}"


def _members(info: RunInfo) -> str:
    number = "1 model" if info.n_members is None else str(info.n_members)
    if info.n_members is None and not info.arrays and info.experiment_name is None:
        number = "not known yet"
    if info.n_trained is not None:
        number += f", {info.n_trained:,} trained numbers each"
    for how, members in (("frozen", info.frozen), ("stopped", info.stopped)):
        if members:
            texts = [f"{member} from batch {batch} on" for member, batch in members.items()]
            number += f"; {how}: {', '.join(texts)}"
    return number


def _losses(info: RunInfo) -> str:
    if (losses := info.losses) is None:
        return "no log point yet"
    training, validation = (spread_text(values) for values in (losses.training, losses.validation))
    after = duration_text(losses.seconds)
    return f"batch {losses.batch}, after {after}: training {training}; validation {validation}"


def _settings(info: RunInfo) -> list[str]:
    if info.experiment_name is None:
        return []
    changed, what = info.changed or frozenset(), "*: not the default"
    if info.changed is None:
        what = "the experiment is not registered here: its defaults are not known"
    rows = [
        (f"{'*' if name in changed else ' '} {name}", _short(value))
        for name, value in info.effective_settings.items()
    ]
    return [f"settings ({what})", *align(rows)]


def _lists(info: RunInfo) -> Iterator[list[str]]:
    """Yield the lists of checkpoints, of the arrays of the history, and of the sizes of parts."""
    checkpoints = [
        (
            f"  after {count_text(own.n_batches, 'batch')}",
            f"{datetime.datetime.fromtimestamp(own.written):%Y-%m-%d %H:%M:%S}",
            size_text(own.n_bytes),
        )
        for own in info.checkpoints
    ]
    arrays = [(f"  {own.name}", _axes(own), own.dtype, size_text(own.n_bytes)) for own in info.arrays]
    for title, rows in (("checkpoints", checkpoints), ("history", arrays)):
        damage = info.history_damage if title == "history" else ""
        found = f"DAMAGED: {damage}" if damage else "none"
        yield [title, *align(rows)] if rows else [f"{title}: {found}"]
    total = sum(info.sizes.values())
    counts = {"log": count_text(info.n_log_lines, "line"), "figures": count_text(info.n_figures, "file")}
    sizes = [
        (f"  {part}", size_text(n_bytes), f"{n_bytes / max(total, 1):.0%}", counts.get(part, ""))
        for part, n_bytes in info.sizes.items()
    ]
    yield [f"size: {size_text(total)}", *align(sizes)]


def _axes(array: ListedArray) -> str:
    """Format axes such as "trainables_batch 40, member 5, 192, 64"; axes without a meaning by length only."""
    suffixes = tuple(f" axis {number}" for number in range(len(array.axes)))
    pairs = zip(array.axes, array.shape, strict=True)
    return ", ".join(str(n) if axis.endswith(suffixes) else f"{axis} {n}" for axis, n in pairs)


def duration_text(seconds: float) -> str:
    """Format a duration, such as "42 s", "3 min 20 s" or "2 h 5 min"."""
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _short(value: Any) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value), MOST_LETTERS)
