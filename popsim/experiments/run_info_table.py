"""Information on a run as text."""

import datetime
import json
from typing import Any

from popsim._checks import check_instance
from popsim._text_checks import count_text, printable, shorten
from popsim._text_tables import align, size_text, spread_text
from popsim.experiments.run_info import RunInfo
from popsim.store import ListedArray, RunFolder

__all__ = ["info_table"]

LONGEST = 100


def info_table(info: RunInfo) -> str:
    """Format a `RunInfo` as text, with sizes in decimal units."""
    check_instance("info", info, RunInfo, "a RunInfo, such as read_run_info(path)")
    sections = [_overview(info), _settings(info), _checkpoints(info), _history(info), _sizes(info)]
    lines = [line for section in sections if section for line in [*section, ""]]
    return "\n".join(map(printable, lines[:-1]))


def _overview(info: RunInfo) -> list[str]:
    return align(overview_rows(info))


def overview_rows(info: RunInfo) -> list[tuple[str, str]]:
    """Return the names and texts of the first part of the table."""
    named = info.experiment or "none: a training by TaskTrainer"
    rows = [
        ("run", str(info.path)),
        ("experiment", named),
        ("written by", f"popsim {info.description.get('popsim')}, format {info.description.get('format')}"),
        ("state", _state(info)),
        ("members", _members(info)),
        ("losses", _losses(info)),
    ]
    if "recording" in info.description:
        rows.append(("recording", _recording(info.description["recording"])))
    rows += [
        (name, _short(info.description[name]))
        for name in ("devices", "engine", "checkpoint_seconds")
        if name in info.description
    ]
    resumed = info.description.get("resumed")
    rows += [
        ("resumed", ", ".join(f"{name} {_short(value)}" for name, value in resumption.items()))
        for resumption in (resumed if isinstance(resumed, list) else [])
        if isinstance(resumption, dict)
    ]
    return rows


def _state(info: RunInfo) -> str:
    of = "" if info.n_batches is None else f"of {info.n_batches} "
    n_until_inactive = info.n_until_inactive
    how = "frozen" if not info.stopped else "stopped" if not info.frozen else "frozen or stopped"
    if info.is_finished:
        how = ", " if n_until_inactive is None else f": all members {how} after {n_until_inactive} of "
        return "finished" if info.n_batches is None else f"finished{how}{count_text(info.n_batches, 'batch')}"
    saved = f"{info.n_saved} {of}batches saved" if info.n_saved else "nothing saved yet"
    if info.writer is not None:
        return f"being written now by {info.writer}, {saved}"
    if info.experiment is None:
        ended = f"ended, as all members were {how} after {n_until_inactive}"
        return f"{saved}; {'restore_checkpoint=True continues it' if n_until_inactive is None else ended}"
    return f"stopped, {saved}; to continue: {RunFolder(info.path).resume_command}"


def _members(info: RunInfo) -> str:
    number = "1 model" if info.n_members is None else str(info.n_members)
    if not info.arrays and info.experiment is None:
        number = "not known yet"
    if info.n_trained is not None:
        number += f", {info.n_trained:,} trained numbers each"
    for how, members in (("frozen", info.frozen), ("stopped", info.stopped)):
        if members:
            texts = [f"{member} from batch {batch} on" for member, batch in members.items()]
            number += f"; {how}: {', '.join(texts)}"
    return number


def _losses(info: RunInfo) -> str:
    if info.losses is None:
        return "no log point yet"
    losses = info.losses
    training, validation = (spread_text(values) for values in (losses.training, losses.validation))
    after = duration_text(losses.seconds)
    return f"batch {losses.batch}, after {after}: training {training}; validation {validation}"


def _recording(recording: Any) -> str:
    if not isinstance(recording, dict):
        return _short(recording)
    digits = ", half the digits" if recording.get("float16") else ""
    return f"trainables: {_short(recording.get('trainables'))}{digits}"


def _settings(info: RunInfo) -> list[str]:
    if info.experiment is None:
        return []
    if info.changed is None:
        title = "settings (the experiment is not registered here: its defaults are not known)"
    else:
        title = "settings (*: not the default)"
    changed = info.changed or frozenset()
    rows = [
        (f"{'*' if name in changed else ' '} {name}", _short(value))
        for name, value in info.effective_settings.items()
    ]
    return [title, *align(rows)]


def _checkpoints(info: RunInfo) -> list[str]:
    if not info.checkpoints:
        return ["checkpoints: none"]
    rows = [
        (
            f"  after {count_text(checkpoint.n_batches, 'batch')}",
            datetime.datetime.fromtimestamp(checkpoint.written).strftime("%Y-%m-%d %H:%M:%S"),
            size_text(checkpoint.n_bytes),
            f"DAMAGED: {checkpoint.damage}" if checkpoint.damage else "",
        )
        for checkpoint in info.checkpoints
    ]
    return ["checkpoints", *align(rows)]


def _history(info: RunInfo) -> list[str]:
    if info.history_damage:
        return [f"history: DAMAGED: {info.history_damage}"]
    if not info.arrays:
        return ["history: none"]
    rows = [
        (
            f"  {array.name}",
            _axes(array),
            array.dtype,
            size_text(array.n_bytes),
        )
        for array in info.arrays
    ]
    return ["history", *align(rows)]


def _axes(array: ListedArray) -> str:
    """Format axes such as "trainables_batch 40, member 5, 192, 64"; axes without a meaning by length only."""
    suffixes = [f" axis {number}" for number in range(len(array.axes))]
    return ", ".join(
        str(length) if axis.endswith(tuple(suffixes)) else f"{axis} {length}"
        for axis, length in zip(array.axes, array.shape, strict=True)
    )


def _sizes(info: RunInfo) -> list[str]:
    total = sum(info.sizes.values())
    counts = {
        "log": count_text(info.n_log_lines, "line"),
        "figures": count_text(info.n_figures, "file"),
    }
    rows = [
        (f"  {part}", size_text(n_bytes), f"{n_bytes / max(total, 1):.0%}", counts.get(part, ""))
        for part, n_bytes in info.sizes.items()
    ]
    return [f"size: {size_text(total)}", *align(rows)]


def duration_text(seconds: float) -> str:
    """Format a duration, such as "42 s", "3 min 20 s" or "2 h 5 min"."""
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _short(value: Any) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value), LONGEST)
