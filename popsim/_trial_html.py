"""What a notebook shows of a trial, or of stacked trials.

It has no colours and no classes of its own: it inherits those of a light or a dark theme. Cells of tables are
aligned one by one, because JupyterLab aligns each to the right.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from popsim._shared.html import Html, element
from popsim.windows import Timeline

LEFT = {"style": "text-align:left"}
LAST = {"style": "text-align:left;overflow-wrap:anywhere"}  # the last column gives way where it is narrow
MOST_VALUES = 12
WIDTH, LABELS, ROW = 520, 130, 18  # px: the drawing, the names on its left, a line of it


def trial_html(trial: Any) -> Html:
    """Describe a trial, or stacked trials, of which the timeline of the first one is drawn."""
    timeline, environment = trial.timeline, trial.environment
    leading = _leading_shape(timeline, trial.inputs, trial.targets)
    many = " × ".join(map(str, leading))
    summary = (
        f"{timeline.n_steps} steps of {timeline.dt:.3g} s, {timeline.n_steps * timeline.dt:.4g} s in all"
    )
    heading = element("strong", f"{many} trials" if leading else "Trial")
    parts = [element("div", heading, ": ", summary)]
    if environment is not None:
        parts += [element("p", f"Environment: {type(environment).__name__}, {environment.actions}")]
    recordings = {name: recorded.values for name, recorded in trial.recordings.items()}
    parts += [
        _signals({"input": trial.inputs, "target": trial.targets, "recording": recordings}, len(leading))
    ]
    active = {name: schedule.active for name, schedule in trial.interventions.items()}
    if timeline.epochs or timeline.events or active:
        parts += [_drawing(timeline, active, len(leading))]
    if leading and (timeline.epochs or timeline.events):
        parts += [element("small", f"The timeline of the first of {many} trials.")]
    if trial.conditions:
        conditions = trial.conditions.items()
        rows = [(name, _values(np.asarray(values), len(leading))) for name, values in conditions]
        parts += [_table(rows, ("condition", "value: number of trials" if leading else "value"))]
    return element("div", *parts, attributes={"style": "overflow-x:auto"})


def _table(rows: Sequence[Sequence[str]], head: Sequence[str]) -> Html:
    """Return a table; the first cell of each row is its heading."""
    titles = [element("th", title, attributes=LEFT | {"scope": "col"}) for title in head]
    body = []
    for first, *others in rows:
        looks = [*[LEFT] * (len(others) - 1), LAST]
        cells = [element("td", cell, attributes=look) for cell, look in zip(others, looks, strict=False)]
        body.append(element("tr", element("th", first, attributes=LEFT | {"scope": "row"}), *cells))
    return element("table", element("thead", element("tr", *titles)), element("tbody", *body))


def _leading_shape(timeline: Timeline, *trees: PyTree[Array]) -> tuple[int, ...]:
    """Return the axes before those of one trial, such as (member, trial): none for one trial."""
    if timeline.epochs:
        return np.shape(next(iter(timeline.epochs.values())))[:-1]
    if timeline.events:
        return np.shape(next(iter(timeline.events.values())))
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(trees)]
    first_of_time = [shape.index(timeline.n_steps) for shape in shapes if timeline.n_steps in shape]
    if first_of_time and all(timeline.n_steps in shape[1:-1] for shape in shapes):
        return shapes[0][: shapes[0].index(timeline.n_steps, 1)]  # as many trials as time steps
    return shapes[0][: first_of_time[0]] if first_of_time else ()


def _signals(signals: Mapping[str, PyTree[Array]], n_leading: int) -> Html:
    """List the signals of each kind, of one trial; inputs in the order in which a network receives them."""
    rows = []
    for kind, tree in signals.items():
        for path, leaf in jax.tree.leaves_with_path(tree):
            name = jax.tree_util.keystr(path, simple=True, separator=" ") or f"{kind}s"
            time, *features = np.shape(leaf)[n_leading:]
            size = " × ".join(map(str, features)) or "1"
            rows.append((name, kind, f"{time} × {size}"))
    return _table(rows, head=("name", "", "time × numbers"))


def _values(values: np.ndarray, n_leading: int) -> str:
    """Return the distinct values of a condition with their numbers of trials, or their range."""
    if n_leading == 0 and values.ndim == 0:
        return _text(values[()])
    if values.ndim > n_leading:
        return "× ".join(map(str, values.shape[n_leading:])) + " numbers"
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    distinct, counts = np.unique(values[~missing], return_counts=True)
    listed = [f"{_text(value)}: {count}" for value, count in zip(distinct, counts, strict=True)]
    if distinct.size > MOST_VALUES:
        listed = [f"{_text(distinct[0])} to {_text(distinct[-1])}, {distinct.size} values"]
    return ", ".join([*listed, *([f"none: {missing.sum()}"] if missing.any() else [])])


def _text(value: Any) -> str:
    return str(bool(value)) if isinstance(value, np.bool_) else f"{value:.3g}"


def _drawing(timeline: Timeline, active: Mapping[str, Any], n_leading: int) -> Html:
    """Draw epochs and interventions of the first trial as bars over time, and events as marks."""
    first = (0,) * n_leading
    bars: list[tuple[str, list[tuple[int, int]]]] = []
    for name, bounds in timeline.epochs.items():
        begin, end = np.asarray(bounds)[first].tolist()
        bars.append((name, [(begin, min(end, timeline.n_steps))] if begin < timeline.n_steps else []))
    bars.sort(key=lambda bar: bar[1][0][0] if bar[1] else timeline.n_steps)
    for name, steps in active.items():
        bars.append((name, _stretches(np.asarray(steps)[first])))
    events = {name: int(np.asarray(step)[first]) for name, step in timeline.events.items()}

    def place(step: float) -> str:
        return f"{LABELS + (WIDTH - LABELS - 10) * step / timeline.n_steps:.1f}"

    lines = []
    for row, (name, spans) in enumerate(bars):
        lines.append(_label(name, row))
        for begin, end in spans:
            width = f"{float(place(end)) - float(place(begin)):.1f}"
            box = {"x": place(begin), "y": str(ROW * row + 4), "width": width, "height": str(ROW - 8)}
            lines.append(element("rect", attributes=box | {"fill": "currentColor", "fill-opacity": "0.35"}))
    for row, (name, step) in enumerate(sorted(events.items(), key=lambda event: event[1]), len(bars)):
        happens = 0 <= step < timeline.n_steps
        lines.append(_label(name if happens else f"{name} (never)", row))
        if happens:
            middle = {"cx": place(step), "cy": str(ROW * row + ROW // 2), "r": "4", "fill": "currentColor"}
            lines.append(element("circle", attributes=middle))
    height = ROW * (len(bars) + len(events))
    return _with_axis(lines, height, timeline, place)


def _with_axis(lines: list[Html], height: int, timeline: Timeline, place: Any) -> Html:
    """Return a drawing with the axis of time below it."""
    ends = {"x1": place(0), "x2": place(timeline.n_steps), "y1": str(height), "y2": str(height)}
    lines = [*lines, element("line", attributes=ends | {"stroke": "currentColor"})]
    for fraction, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        seconds = fraction * timeline.n_steps * timeline.dt
        where = {"x": place(fraction * timeline.n_steps), "y": str(height + 14), "text-anchor": anchor}
        lines.append(element("text", f"{seconds:.3g} s", attributes=where | {"fill": "currentColor"}))
    size = {"viewBox": f"0 0 {WIDTH} {height + 20}", "width": str(WIDTH), "font-size": "12"}
    look = {"style": "max-width:100%;height:auto;display:block", "role": "img", "aria-label": "timeline"}
    return element("svg", *lines, attributes=size | look)


def _label(name: str, row: int) -> Html:
    where = {"x": str(LABELS - 8), "y": str(ROW * row + ROW - 5), "text-anchor": "end"}
    return element("text", name, attributes=where | {"fill": "currentColor"})


def _stretches(active: np.ndarray) -> list[tuple[int, int]]:
    """Return the first step, and that after the last, of each stretch in which something is active."""
    changes = np.flatnonzero(np.diff(active.astype(int), prepend=0, append=0))
    return list(zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True))
