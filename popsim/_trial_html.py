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


def trial_html(trial: Any) -> Html:
    """Describe a trial, or stacked trials, with the times of the first one."""
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
        parts += [_times(timeline, active, len(leading))]
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


def _times(timeline: Timeline, active: Mapping[str, Any], n_leading: int) -> Html:
    """List when epochs, events and interventions of the first trial begin and end, in seconds."""
    first, n_steps = (0,) * n_leading, timeline.n_steps
    spans: list[tuple[str, str, Sequence[tuple[int, int | None]]]] = []
    for name, bounds in timeline.epochs.items():
        begin, end = np.asarray(bounds)[first].tolist()
        spans.append((name, "epoch", [(begin, min(end, n_steps))] if begin < n_steps else []))
    for name, step in timeline.events.items():
        at = int(np.asarray(step)[first])
        spans.append((name, "event", [(at, None)] if 0 <= at < n_steps else []))
    for name, steps in active.items():
        changes = np.flatnonzero(np.diff(np.asarray(steps)[first].astype(int), prepend=0, append=0)).tolist()
        spans.append((name, "intervention", list(zip(changes[::2], changes[1::2], strict=True))))
    spans.sort(key=lambda span: span[2][0][0] if span[2] else n_steps)

    def text(begin: int, end: int | None) -> str:
        at = f"{begin * timeline.dt:.3g}"
        return at if end is None else f"{at} to {end * timeline.dt:.3g}"

    rows = [(name, kind, ", ".join(text(*each) for each in times) or "never") for name, kind, times in spans]
    return _table(rows, head=("of the first trial" if n_leading else "name", "", "time (s)"))
