"""What happens in the trials of a task: inputs, targets, epochs and events."""

import textwrap
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes

from popsim.analysis.figures.named_times import draw_named_times
from popsim.analysis.figures.style import COLORS, reach
from popsim.hand import HandState
from popsim.output_target import OutputTarget
from popsim.trial import Trial, n_trials

LINE_COLORS = (*COLORS[:5], COLORS[6])  # the colour of events is not among them
TITLE_WIDTH = 30
UNBROKEN = "\N{NO-BREAK SPACE}"

Row = tuple[str, Callable[[Axes, int], None]]


def task_trial_rows(trials: Trial) -> list[str]:
    """The names of the rows that `draw_task_trials` draws, from the top.

    **Arguments:**

    - `trials`: stacked trials.
    """
    return [name for name, _ in _rows(trials)]


def draw_task_trials(axes: Shaped[np.ndarray, "row trial"], trials: Trial) -> Shaped[np.ndarray, "row trial"]:
    """Trials side by side: each input and each target over time, with epochs shaded and events as lines.

    Of several features the first is the thickest line, so that none hides another; more than six are drawn
    as an image, the first at the bottom. Outputs that are asked for
    are pale where they do not count, and a grey strip beneath them is as high as much as each step counts.
    Interventions are bars where they act.

    **Arguments:**

    - `axes`: where to draw, a column for each trial, a row for each of `task_trial_rows`.
    - `trials`: stacked trials.

    **Raises:** `ValueError` if `axes` has another shape.
    """
    trials = jax.tree.map(np.asarray, trials)
    rows = _rows(trials)
    if axes.shape != (len(rows), n_trials(trials)):
        raise ValueError(
            f"`axes` must be {len(rows)} rows of {n_trials(trials)}, one for each trial, got {axes.shape}."
        )
    for index, column in enumerate(axes.T):
        for ax, (_, draw) in zip(column, rows, strict=True):
            draw(ax, index)
            reach(ax, x=(0, trials.timeline.n_steps * trials.timeline.dt))
        column[-1].set_xlabel("time (s)")
    heights = draw_named_times(axes, trials.timeline)
    for index, ax in enumerate(axes[0]):
        ax.set_title(_title(trials, index), pad=max(heights) + 4, fontsize=7)
    for ax, (name, _) in zip(axes[:, 0], rows, strict=True):
        ax.set_ylabel(name)
    for ax in axes[:, -1]:
        if len(ax.get_legend_handles_labels()[1]) > 1:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.0)
    return axes


def _rows(trials: Trial) -> list[Row]:
    dt, targets = trials.timeline.dt, trials.targets
    rows: list[Row] = []
    for path, values in jax.tree.leaves_with_path(trials.inputs):
        rows += [("input\n" + _name(path), _signal(values, dt))]
    if isinstance(targets, HandState):
        space = "xyz"[: targets.position.shape[-1]]
        rows += [
            ("target\nposition (m)", _signal(targets.position, dt, labels=space)),
            ("target\nvelocity (m/s)", _signal(targets.velocity, dt, labels=space)),
        ]
    elif isinstance(targets, OutputTarget):
        rows += [("target\noutput", _signal(targets.values, dt, counts=np.asarray(targets.counts)))]
    else:
        for path, values in jax.tree.leaves_with_path(targets):
            rows += [("target\n" + _name(path), _signal(values, dt))]
    if trials.interventions:
        rows += [("interventions", _interventions(trials))]
    return rows


def _name(path: Any) -> str:
    return textwrap.fill(jax.tree_util.keystr(path, simple=True, separator=" "), 16)


def _signal(values: Any, dt: float, *, labels: str = "", counts: Any = None) -> Callable[[Axes, int], None]:
    """Draws one trial of a signal with leading axes (trial, time)."""
    flat = np.asarray(values, float).reshape(*values.shape[:2], -1)
    edges = dt * np.arange(flat.shape[1] + 1)
    draw = _lines(flat, edges, labels, counts) if flat.shape[-1] <= len(LINE_COLORS) else _image(flat, edges)
    if counts is None:
        return draw

    def draw_with_counts(ax: Axes, trial: int) -> None:
        draw(ax, trial)
        height = 0.07 * _held(counts[trial]) / (np.max(counts) or 1.0)
        below: Any = {"transform": ax.get_xaxis_transform(), "color": "0.45", "linewidth": 0}
        ax.fill_between(edges, 0, height, step="post", zorder=2, **below)

    return draw_with_counts


def _lines(
    values: Float[np.ndarray, "trial time feature"],
    edges: Float[np.ndarray, " edge"],
    labels: str,
    counts: Any,
) -> Callable[[Axes, int], None]:
    names = labels or [str(number) for number in range(1, values.shape[-1] + 1)]

    def draw(ax: Axes, trial: int) -> None:
        counted = np.ones(values.shape[1]) if counts is None else counts[trial]
        for index, feature in enumerate(values[trial].T):
            look: Any = {"color": LINE_COLORS[index], "linewidth": 1.0 + 0.7 * (len(names) - 1 - index)}
            own = np.where(counted > 0, feature, np.nan)
            ax.step(edges, _held(feature), where="post", alpha=0.25, **look)
            ax.step(edges, _held(own), where="post", label=names[index], **look)
        ax.margins(y=0.12)

    return draw


def _held(values: Float[np.ndarray, " time"]) -> Float[np.ndarray, " edge"]:
    """What is there at a step is there until the next: one value more, for the end of the last step."""
    return np.append(values, values[-1])


def _image(
    values: Float[np.ndarray, "trial time feature"], edges: Float[np.ndarray, " edge"]
) -> Callable[[Axes, int], None]:
    """Colours from blue below zero to red above, or greys; what is zero is left clear."""
    most = float(np.abs(values).max()) or 1.0
    has_sign = bool((values < 0).any())
    colors = {"cmap": "RdBu_r" if has_sign else "Greys", "vmin": -most if has_sign else -0.1, "vmax": most}
    n_features = values.shape[-1]

    def draw(ax: Axes, trial: int) -> None:
        shown = np.ma.masked_equal(values[trial].T, 0.0)
        ax.pcolormesh(edges, np.arange(n_features + 1) + 0.5, shown, zorder=1, rasterized=True, **colors)
        ax.set_yticks([1, n_features])

    return draw


def _interventions(trials: Trial) -> Callable[[Axes, int], None]:
    dt, names = trials.timeline.dt, sorted(trials.interventions)

    def draw(ax: Axes, trial: int) -> None:
        for row, name in enumerate(names):
            active = np.concatenate([[0], trials.interventions[name].active[trial], [0]]).astype(int)
            starts, ends = np.flatnonzero(np.diff(active) > 0), np.flatnonzero(np.diff(active) < 0)
            bars = [(dt * start, dt * (end - start)) for start, end in zip(starts, ends, strict=True)]
            ax.broken_barh(bars, (row - 0.2, 0.4), color=LINE_COLORS[row % len(LINE_COLORS)])
        ax.set_yticks(range(len(names)), names)
        reach(ax, y=(-0.6, len(names) - 0.4))

    return draw


def _title(trials: Trial, trial: int) -> str:
    """The conditions of a trial; those of many numbers, and labels that are missing, are left out."""
    labels = {name: np.ravel(values[trial]) for name, values in trials.conditions.items()}
    said = [
        f"{name} {', '.join(_label(value) for value in values)}"
        for name, values in labels.items()
        if 0 < values.size <= 3 and not np.any(np.isnan(values))
    ]
    return textwrap.fill("; ".join(one.replace(" ", UNBROKEN) for one in said), TITLE_WIDTH)


def _label(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return f"{round(float(value), 6) + 0.0:.3g}"
