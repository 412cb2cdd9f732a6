"""What the folder of a run says, as text."""

import datetime
import json
from collections.abc import Mapping
from typing import Any

from popsim._shared.text_checks import align, count_text, printable, shorten, size_text, spread_text
from popsim.experiments.run_info import RunInfo
from popsim.store import ListedArray

__all__ = ["info_table"]

LONGEST = 100


def info_table(info: RunInfo) -> str:
    """Format what is known of a run, by `read_run_info` or `popsim.open_run`, as text."""
    sections = [align(_overview(info)), _settings(info), _checkpoints(info), _history(info), _sizes(info)]
    lines = [line for section in sections if section for line in [*section, ""]]
    return "\n".join(map(printable, lines[:-1]))


def _overview(info: RunInfo) -> list[tuple[str, str]]:
    """Return the names and texts of the first part of the table."""
    described = info.description
    rows = [
        ("run", str(info.folder.path)),
        ("experiment", info.experiment_name or "none: a training by TaskTrainer"),
        ("written by", f"popsim {described.get('popsim')}, format {described.get('format')}"),
        ("state", state_text(info)),
        ("members", _members(info)),
        ("losses", _losses(info)),
    ]
    if "recording" in described:
        digits = ", half the digits" if described["recording"].get("float16") else ""
        rows.append(("recording", f"trainables: {_short(described['recording'].get('trainables'))}{digits}"))
    names = ("devices", "engine", "checkpoint_seconds")
    rows += [(name, _short(described[name])) for name in names if name in described]
    return rows + [("resumed", _named(resumption)) for resumption in described.get("resumed", ())]


def state_text(info: RunInfo) -> str:
    """Return how far a run is, and how it is continued."""
    n_until_inactive = info.n_until_inactive
    how = "frozen" if not info.stopped else "stopped" if not info.frozen else "frozen or stopped"
    if info.is_finished:
        ended = ", " if n_until_inactive is None else f": all members {how} after {n_until_inactive} of "
        return f"finished{ended}{count_text(info.settings['n_batches'], 'batch')}"
    of = "" if info.n_batches is None else f"of {info.n_batches} "
    saved = f"{info.n_saved} {of}batches saved" if info.n_saved else "nothing saved yet"
    if (writer := info.writer) is not None:
        return f"being written now by {writer}, {saved}"
    if info.experiment_name is None:
        ended = f"ended, as all members were {how} after {n_until_inactive}"
        return f"{saved}; {'restore_checkpoint=True continues it' if n_until_inactive is None else ended}"
    return f"stopped, {saved}; to continue: {info.folder.resume_command}"


def _members(info: RunInfo) -> str:
    number = "1 model" if info.n_members is None else str(info.n_members)
    if not info.arrays and info.experiment_name is None:
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
    title = "settings (*: not the default)"
    if info.changed is None:
        title = "settings (the experiment is not registered here: its defaults are not known)"
    changed = info.changed or frozenset()
    rows = [
        (f"{'*' if name in changed else ' '} {name}", _short(value))
        for name, value in info.effective_settings.items()
    ]
    return [title, *align(rows)]


def _checkpoints(info: RunInfo) -> list[str]:
    rows = [
        (
            f"  after {count_text(checkpoint.n_batches, 'batch')}",
            datetime.datetime.fromtimestamp(checkpoint.written).strftime("%Y-%m-%d %H:%M:%S"),
            size_text(checkpoint.n_bytes),
        )
        for checkpoint in info.checkpoints
    ]
    return ["checkpoints", *align(rows)] if rows else ["checkpoints: none"]


def _history(info: RunInfo) -> list[str]:
    if info.history_damage:
        return [f"history: DAMAGED: {info.history_damage}"]
    rows = [(f"  {own.name}", _axes(own), own.dtype, size_text(own.n_bytes)) for own in info.arrays]
    return ["history", *align(rows)] if rows else ["history: none"]


def _axes(array: ListedArray) -> str:
    """Format axes such as "trainables_batch 40, member 5, 192, 64"; axes without a meaning by length only."""
    suffixes = tuple(f" axis {number}" for number in range(len(array.axes)))
    pairs = zip(array.axes, array.shape, strict=True)
    return ", ".join(str(n) if axis.endswith(suffixes) else f"{axis} {n}" for axis, n in pairs)


def _sizes(info: RunInfo) -> list[str]:
    total = sum(info.sizes.values())
    counts = {"log": count_text(info.n_log_lines, "line"), "figures": count_text(info.n_figures, "file")}
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


def _named(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in values.items())


def _short(value: Any) -> str:
    return shorten(value if isinstance(value, str) else json.dumps(value), LONGEST)
