"""What a notebook shows of a run and of its history, and what is printed of the latter."""

from typing import Any

from popsim._html import Html, element, folded, plain_table, shown_object
from popsim._text_tables import align, size_text
from popsim.experiments.run_info import RunInfo
from popsim.experiments.run_info_table import overview_rows
from popsim.store import RunFolder
from popsim.training.history.history import BATCH

LAZY = "lazy arrays, read when they are used"
HEAD = ("array", "axes", "numbers", "size")


def info_html(info: RunInfo) -> Html:
    """Return what a notebook shows of a run: its state, and the settings that are not the default."""
    changed, in_effect = info.changed or frozenset(), info.effective_settings
    settings = [(name, text) for name, text in in_effect.items() if name in changed]
    others = [(name, text) for name, text in in_effect.items() if name not in changed]
    parts = [plain_table(overview_rows(info))]
    if settings:
        parts.append(plain_table(settings, head=("setting", "not the default")))
    if others:
        title = "settings" if info.changed is None else "settings that are the default"
        parts.append(folded(title, plain_table(others)))
    sizes = [(part, size_text(n_bytes)) for part, n_bytes in info.sizes.items() if n_bytes]
    parts.append(folded(f"size: {size_text(sum(info.sizes.values()))}", plain_table(sizes)))
    if info.is_finished:
        parts.append(element("div", "for a report: ", element("code", RunFolder(info.path).command("show"))))
    return shown_object("Run" if info.experiment else "Training", str(info.path), *parts)


def dataset_html(dataset: Any) -> Html:
    """Return what a notebook shows of a stored history: axes and sizes; no array but batches is read."""
    spans, rows = _spans(dataset), _array_rows(dataset)
    return shown_object("History", LAZY, plain_table(spans), plain_table(rows, head=HEAD))


def dataset_text(dataset: Any) -> str:
    """Return what is printed of a stored history: what `dataset_html` lists."""
    return "\n".join([f"History: {LAZY}", *align(_spans(dataset)), "", *align([HEAD, *_array_rows(dataset)])])


def _spans(dataset: Any) -> list[tuple[str, str]]:
    """Return the axes of batches, with their numbers."""
    spans = []
    for name, batches in dataset.coords.items():
        if str(name).endswith(BATCH) and batches.ndim == 1 and batches.size:
            first, last = batches.values[[0, -1]]
            spans.append((str(name), f"{batches.size} rows, batches {first} to {last}"))
    return spans


def _array_rows(dataset: Any) -> list[tuple[str, ...]]:
    """Return a row for each array, with the columns of `HEAD`."""
    rows = []
    for name, array in dataset.data_vars.items():
        axes = ", ".join(_axis(str(axis), length) for axis, length in array.sizes.items())
        rows.append((str(name), axes, str(array.dtype), size_text(array.nbytes)))
    return rows


def _axis(name: str, length: int) -> str:
    """Return an axis and its length; of an axis without a meaning, such as "weight axis 0", the length."""
    return str(length) if " axis " in name else f"{name} {length}"
