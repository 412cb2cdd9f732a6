"""What the folder of a run says, as plain data and as text, whether or not its experiment is known here."""

import contextlib
import dataclasses
import datetime
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
from popsim.store.run_parts import damage_of_run

__all__ = ["info_table", "read_run_info", "verify_run"]

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


def describe_run(described: DescribedRun) -> dict[str, Any]:
    """Return what the folder of a run, or of a training by a script, says of itself, see `read_run_info`."""
    folder, content, is_run = described.folder, described.content, described.is_run
    name, settings = content.get("experiment"), content.get("settings", {})
    writer, is_finished = lock_holder(folder.path), is_run and folder.is_finished
    arrays, attributes, damage = _listed_history(described)
    losses, n_log_points = _end_of_log(folder)
    in_effect = content.get("in_force", {})
    return {
        "kind": "run" if is_run else "training",
        "path": str(folder.path),
        "popsim": content.get("popsim"),
        "format": content.get("format"),
        "experiment": name,
        "state": "finished" if is_finished else "being trained" if writer else "stopped",
        "writer": writer,
        "n_batches": settings.get("n_batches"),
        "n_batches_saved": max(Checkpoints(folder.checkpoints).steps(), default=0),
        "n_members": settings.get("n_members", attributes.get("n_members")),
        "n_trained_numbers": attributes.get("n_trained"),
        "frozen_from": _batches_of_members(attributes.get("frozen_from", [])),
        "stopped_from": _batches_of_members(attributes.get("stopped_from", [])),
        "losses": None if losses is None else vars(losses),
        "n_log_points": n_log_points,
        "n_figures": len({path.stem for _, path in files_below(folder.figures)}),
        **{key: content.get(key) for key in ("recording", "devices", "engine", "checkpoint_seconds")},
        "resumed": content.get("resumed", []),
        "resume_command": folder.resume_command if is_run and not is_finished else None,
        "settings": settings,
        "settings_in_effect": {key: in_effect.get(key, setting_text(own)) for key, own in settings.items()},
        "changed_settings": _changed_settings(name, settings),
        "checkpoints": _checkpoints(folder),
        "history": arrays,
        "history_damage": damage,
        "n_bytes": _sizes(folder),
    }


def _listed_history(described: DescribedRun) -> tuple[list[dict[str, Any]], Mapping[str, Any], str]:
    """Return the arrays of the history, what it says besides, and why it cannot be listed."""
    try:
        return *list_arrays(described.folder.history, run_id=described.run_id), ""
    except ValueError as error:
        is_damaged = isinstance(error, CorruptDataError | MismatchError)  # else there is none yet
        return [], {}, str(error) if is_damaged else ""


def _end_of_log(folder: RunFolder) -> tuple[LoggedLosses | None, int]:
    """Return the losses in the last whole line of the log, and how many lines there are."""
    n_lines, last = 0, b""
    for n_lines, line in enumerate(log_lines(folder.log) if folder.log.exists() else (), 1):  # noqa: B007
        last = line if line.endswith(b"\n") else last
    with contextlib.suppress(ValueError):  # of an empty line, too
        return logged_losses(json.loads(last)), n_lines
    return None, n_lines


def _batches_of_members(from_batch: Any) -> dict[int, int]:
    """Return by member the batch from which on it does not change."""
    batches = np.atleast_1d(np.asarray(from_batch, int)).tolist()
    return {member: batch for member, batch in enumerate(batches) if batch >= 0}


def _changed_settings(name: str | None, settings: Mapping[str, Any]) -> list[str] | None:
    """Return the settings that differ from the defaults; None if the experiment is not registered."""
    if (kind := EXPERIMENTS.get(name or "")) is None:
        return None
    defaults = {
        field.name: field.default_factory() if callable(field.default_factory) else field.default
        for field in dataclasses.fields(kind)
    }
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    return sorted(name for name, value in values.items() if (name, value) not in defaults.items())


def _checkpoints(folder: RunFolder) -> list[dict[str, float]]:
    """Return the number of batches, time (s since 1970) and size of each checkpoint."""
    checkpoints, listed = Checkpoints(folder.checkpoints), []
    for step in checkpoints.steps():
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile by a run in progress
            file = checkpoints.file(step).stat()
            listed.append({"n_batches": step, "written": file.st_mtime, "n_bytes": file.st_size})
    return listed


def _sizes(folder: RunFolder) -> dict[str, int]:
    """Return the size of each part of the folder, in bytes."""
    sizes: dict[str, int] = dict.fromkeys(PARTS, 0)
    of_part = {getattr(folder, part).name: part for part in PARTS[:-1]}
    for name, file in files_below(folder.path):
        with contextlib.suppress(FileNotFoundError):
            sizes[of_part.get(name.partition("/")[0], "other")] += file.lstat().st_size
    return sizes


def _read(path: str | Path) -> DescribedRun:
    folder = RunFolder(as_path("path", path))
    if not folder.description.is_file() and not folder.training.is_file():
        raise ValueError(
            f"`path` must be the folder of a popsim run or training, got {folder.path}: "
            "it has neither run.json nor training.json."
        )
    return DescribedRun.read(folder)


def read_run_info(path: str | Path) -> dict[str, Any]:
    """Return what a run, finished or not, or a training by a script says of itself, as plain data.

    This is what `popsim info --json` prints, with documented keys. Nothing is rebuilt or written, and damage
    is not looked for: see `verify_run`. The experiment need not be registered here; `open_run` opens a run
    with it.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Raises:** `CorruptDataError` if its description is damaged; `MismatchError` if it has another format.
    """
    return describe_run(_read(path))


def verify_run(path: str | Path) -> dict[str, str]:
    """Read every byte of a run, or of a training in its folder, one part at a time, and return the damage.

    Of the log, the numbers and the order of lines are not checked, nor what is in the figures and in
    `tensorboard/`. A run in progress may be verified as well.

    **Arguments:**

    - `path`: the folder of the run, or the `chkpt_dir` of a training.

    **Returns:** the problems by file or checkpoint, relative to `path`; empty if there are none.

    **Raises:** as `read_run_info`.
    """
    return {name: str(error) for name, error in damage_of_run(_read(path)).items()}


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


def info_table(info: Mapping[str, Any]) -> str:
    """Format what `read_run_info` returns as text."""
    changed, elsewhere = info["changed_settings"], ("changed_settings", "settings", *SECTIONS)
    known = [name for name in info if name not in elsewhere and info[name] not in (None, "", [], {})]
    lines = align([(name, _text(name, info[name])) for name in known])
    for title in SECTIONS:
        entries = info[title]
        if isinstance(entries, Mapping):
            marked = (changed or ()) if title == "settings_in_effect" else ()
            rows = [["* " * (name in marked) + name, _text(title, value)] for name, value in entries.items()]
        else:
            rows = [[*entry] for entry in entries[:1]]
            rows += [[_text(name, value) for name, value in entry.items()] for entry in entries]
        lines += ["", title if rows else f"{title}: none", *(f"  {line}" for line in align(rows))]
    what = "*: not the default" if changed is not None else "not registered here: its defaults are not known"
    lines += ["", what] * (info["experiment"] is not None)
    return "\n".join(map(printable, lines))


def _text(name: str, value: Any) -> str:
    """Format a value by its name: one of `FORMATS`, or what it consists of."""
    if name in FORMATS:
        return FORMATS[name](value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(str(key), entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text("", entry) for entry in value)
    return shorten(value if isinstance(value, str) else json.dumps(value), MOST_LETTERS)
