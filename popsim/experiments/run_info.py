"""What the folder of a run says, also as text, whether or not its experiment is known here."""

import contextlib
import dataclasses
import datetime
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from popsim._shared.text_checks import align, as_path, printable, shorten, size_text, spread_text
from popsim.experiments.registry import EXPERIMENTS, setting_text
from popsim.store import Checkpoints, CorruptDataError, MismatchError, RunFolder, list_arrays
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
    def n_saved(self) -> int:
        """The number of batches of the newest checkpoint."""
        return max(Checkpoints(self.folder.checkpoints).steps(), default=0)

    @functools.cached_property
    def _listed(self) -> tuple[list[dict[str, Any]], Mapping[str, Any], str]:
        """The arrays of the history, what it says besides, and why it cannot be listed."""
        try:
            return *list_arrays(self.folder.history, run_id=self.described.run_id), ""
        except (CorruptDataError, MismatchError) as error:
            return [], {}, str(error)
        except ValueError:  # there is none yet
            return [], {}, ""

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

    def describe(self) -> dict[str, Any]:
        """Return what is known, as plain data: what `popsim info --json` prints, with documented keys."""
        content, writer, is_run = self.description, lock_holder(self.folder.path), self.described.is_run
        arrays, attributes, damage = self._listed
        return {
            "kind": "run" if is_run else "training",
            "path": str(self.folder.path),
            "popsim": content.get("popsim"),
            "format": content.get("format"),
            "experiment": self.experiment_name,
            "state": "finished" if self.is_finished else "being trained" if writer else "stopped",
            "writer": writer,
            "n_batches": self.n_batches,
            "n_batches_saved": self.n_saved,
            "n_members": self.settings.get("n_members", attributes.get("n_members")),
            "n_trained_numbers": self.n_trained,
            "frozen_from": self.frozen,
            "stopped_from": self.stopped,
            "losses": None if self.losses is None else vars(self.losses),
            "n_log_points": self._end_of_log[1],
            "n_figures": sum(1 for _ in files_below(self.folder.figures)),
            **{name: content.get(name) for name in ("recording", "devices", "engine", "checkpoint_seconds")},
            "resumed": content.get("resumed", []),
            "resume_command": self.folder.resume_command if is_run and not self.is_finished else None,
            "settings": self.settings,
            "settings_in_effect": self.effective_settings,
            "changed_settings": None if self.changed is None else sorted(self.changed),
            "checkpoints": self._checkpoints(),
            "history": arrays,
            "history_damage": damage,
            "n_bytes": self._sizes(),
        }

    def _checkpoints(self) -> list[dict[str, float]]:
        """Return the number of batches, time (s since 1970) and size of each checkpoint."""
        checkpoints, listed = Checkpoints(self.folder.checkpoints), []
        for step in checkpoints.steps():
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile by a run in progress
                file = checkpoints.file(step).stat()
                listed.append({"n_batches": step, "written": file.st_mtime, "n_bytes": file.st_size})
        return listed

    def _sizes(self) -> dict[str, int]:
        """Return the size of each part of the folder, in bytes."""
        sizes: dict[str, int] = dict.fromkeys(PARTS, 0)
        of_part = {getattr(self.folder, part).name: part for part in PARTS[:-1]}
        for name, file in files_below(self.folder.path):
            with contextlib.suppress(FileNotFoundError):
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

    **Raises:** `CorruptDataError` if its description is damaged; `MismatchError` if it has another format.
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


def duration_text(seconds: float) -> str:
    """Format a duration, such as "42 s", "3 min 20 s" or "2 h 5 min"."""
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


FORMATS: Mapping[str, Callable[[Any], str]] = {
    "axes": lambda axes: ", ".join(axis for axis in axes if " axis " not in axis),  # those with a meaning
    "n_bytes": size_text,
    "seconds": duration_text,
    "written": lambda seconds: f"{datetime.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}",
    **dict.fromkeys(("training", "validation"), spread_text),
}
SECTIONS = ("settings_in_effect", "checkpoints", "history", "n_bytes")


def info_table(info: RunInfo) -> str:
    """Format what is known of a run, by `read_run_info` or `popsim.open_run`, as text."""
    described = info.describe()
    changed, _ = described.pop("changed_settings"), described.pop("settings")
    sections = {name: described.pop(name) for name in SECTIONS}
    known = {name: value for name, value in described.items() if value not in (None, "", [], {})}
    lines = align([(name, _text(name, value)) for name, value in known.items()])
    for title, entries in sections.items():
        if isinstance(entries, Mapping):
            marks = {name: "* " for name in changed or () if title == "settings_in_effect"}
            rows = [[marks.get(name, "") + name, _text(title, value)] for name, value in entries.items()]
        else:
            rows = [[_text(name, value) for name, value in entry.items()] for entry in entries]
            rows = [[*entry] for entry in entries[:1]] + rows
        lines += ["", title if rows else f"{title}: none", *(f"  {line}" for line in align(rows))]
    what = "*: not the default" if changed is not None else "not registered here: its defaults are not known"
    lines += ["", what] * (info.experiment_name is not None)
    return "\n".join(map(printable, lines))


def _text(name: str, value: Any) -> str:
    """Format a value by its name: one of `FORMATS`, or what it consists of."""
    if name in FORMATS:
        return FORMATS[name](value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(key, entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text("", entry) for entry in value)
    return shorten(value if isinstance(value, str) else json.dumps(value), MOST_LETTERS)
