"""Figures of tasks and their trials."""

import re
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped
from matplotlib.axes import Axes

from popsim._compiled import jit
from popsim.analysis.figures.style import COLORS, extend_limits
from popsim.environment import Box, Discrete
from popsim.hand import HandState
from popsim.interaction import respond, start_interaction
from popsim.randomness import folded_key, seed_key
from popsim.trial import OutputTarget, Trial, n_trials
from popsim.windows import Timeline

__all__ = ["task_trial_rows", "draw_task_trials"]

EVENT_COLOR = "#D55E00"
EPOCH_SHADES = ("#F1F1F1", "#DFE7EF")
FONT_SIZE = 6  # points
LINE_HEIGHT = 8  # points


class _Label(NamedTuple):
    text: str
    left: float  # as a share of the width of the axes
    right: float
    color: str


def draw_named_times(axes: Shaped[np.ndarray, "row trial"], timeline: Timeline) -> list[float]:
    """Shade epochs, draw events of each trial in its column, and return the heights of names in points."""
    figure = axes[0, 0].get_figure()
    width = 72 * figure.get_size_inches()[0] / (axes.shape[1] + 0.5) * 0.9  # approximate, in points
    return [_draw_trial(column, timeline, trial, width) for trial, column in enumerate(axes.T)]


def _draw_trial(column: Shaped[np.ndarray, " row"], timeline: Timeline, trial: int, width: float) -> float:
    epochs = {name: np.asarray(bounds)[trial] for name, bounds in timeline.epochs.items()}
    occurring_epochs = sorted(
        (int(first), int(end), name) for name, (first, end) in epochs.items() if end > first
    )
    events = {name: int(np.asarray(steps)[trial]) for name, steps in timeline.events.items()}
    occurring_events = sorted((step, name) for name, step in events.items() if step < timeline.n_steps)
    for ax in column:
        for index, (first, end, _) in enumerate(occurring_epochs):
            shade = EPOCH_SHADES[index % len(EPOCH_SHADES)]
            ax.axvspan(timeline.dt * first, timeline.dt * end, color=shade, linewidth=0, zorder=0)
        for step, _ in occurring_events:
            ax.axvline(timeline.dt * step, color=EVENT_COLOR, linewidth=0.8, zorder=3)
    names = [
        _centered_label(name, (first + end) / 2, timeline.n_steps, width)
        for first, end, name in occurring_epochs
    ]
    lines = _stack(names)
    lines += _stack([_event_label(name, step / timeline.n_steps, width) for step, name in occurring_events])
    _write(column[0], lines)
    return LINE_HEIGHT * len(lines)


def _extent(text: str, width: float) -> float:
    """Return the approximate width of a text as a share of axes that are `width` points wide."""
    return 0.55 * FONT_SIZE * (len(text) + 1) / width


def _centered_label(text: str, step: float, n_steps: int, width: float) -> _Label:
    half = _extent(text, width) / 2
    middle = min(max(step / n_steps, half), max(1 - half, half))
    return _Label(text, middle - half, middle + half, "0.35")


def _event_label(name: str, at: float, width: float) -> _Label:
    """Return a label to the right of the line of an event, or to its left if there is no room."""
    extent = _extent(f"| {name}", width)
    if at + extent > 1.0 and at > extent:
        return _Label(f"{name} |", at - extent, at, EVENT_COLOR)
    return _Label(f"| {name}", at, at + extent, EVENT_COLOR)


def _stack(labels: list[_Label]) -> list[list[_Label]]:
    lines: list[list[_Label]] = []
    for label in labels:
        for line in lines:
            if line[-1].right <= label.left:
                line.append(label)
                break
        else:
            lines.append([label])
    return lines


def _write(ax: Axes, lines: list[list[_Label]]) -> None:
    for index, line in enumerate(lines):
        for label in line:
            is_left_of_line = label.text.endswith("|")
            ax.annotate(
                label.text,
                (label.right if is_left_of_line else label.left, 1.0),
                xycoords="axes fraction",
                xytext=(0, 2 + LINE_HEIGHT * index),
                textcoords="offset points",
                fontsize=FONT_SIZE,
                color=label.color,
                ha="right" if is_left_of_line else "left",
                va="bottom",
            )


LINE_COLORS = (*COLORS[:5], COLORS[6])  # without the colour of events
TITLE_WIDTH = 30
UNITS = {
    "direction": "rad",
    "place direction": "rad",
    "distance": "m",
    "place distance": "m",
    "jump along": "m",
    "jump left": "m",
    "mean speed": "m/s",
    "speed": "m/s",
    "hold": "s",
    "interval": "s",
    "production": "s",
    "f1": "Hz",
    "f2": "Hz",
}
"""Units of conditions in `popsim.tasks`, by name without a number at its end."""
UNBROKEN = "\N{NO-BREAK SPACE}"

Row = tuple[str, Callable[[Axes, int], None]]


def task_trial_rows(trials: Trial) -> list[str]:
    """Return the names of the rows of `draw_task_trials`, from the top."""
    return [name for name, _ in _rows(trials)]


def draw_task_trials(axes: Shaped[np.ndarray, "row trial"], trials: Trial) -> Shaped[np.ndarray, "row trial"]:
    """Draw trials side by side: inputs and targets over time, with epochs shaded and events as lines.

    More than six features are drawn as an image, the first at the bottom. Target outputs are pale at steps
    that do not count; the height of the grey strip below them is the weight of each step. What an environment
    shows is drawn for random actions, or for a hand at rest at its start.

    **Arguments:**

    - `axes`: axes to draw into, one column per trial and one row for each of `task_trial_rows`.
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
            extend_limits(ax, x=(0, trials.timeline.n_steps * trials.timeline.dt))
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
        counts = np.asarray(targets.counts)
        counts = np.broadcast_to(counts if counts.ndim == 3 else counts[..., None], targets.values.shape)
        rows += [("target\noutput", _signal(targets.values, dt, counts=counts))]
    else:
        for path, values in jax.tree.leaves_with_path(targets):
            rows += [("target\n" + _name(path), _signal(values, dt))]
    for name, recorded in trials.recordings.items():
        counts = np.broadcast_to(recorded.counts, recorded.values.shape)
        rows += [(f"recording\n{textwrap.fill(name, 16)}", _signal(recorded.values, dt, counts=counts))]
    for name, values in shown_signals(trials).items():
        rows += [(f"shown\n{textwrap.fill(name, 16)}", _signal(values, dt))]
    if trials.interventions:
        rows += [("interventions", intervention_bars(trials))]
    return rows


def _name(path: Any) -> str:
    return textwrap.fill(jax.tree_util.keystr(path, simple=True, separator=" "), 16)


def _signal(values: Any, dt: float, *, labels: str = "", counts: Any = None) -> Callable[[Axes, int], None]:
    """Return a function that draws one trial of a signal with leading axes (trial, time).

    `counts` has the shape of the signal; its mean over features is drawn at the bottom.
    """
    flat = np.asarray(values, float).reshape(*values.shape[:2], -1)
    edges = dt * np.arange(flat.shape[1] + 1)
    draw = _lines(flat, edges, labels, counts) if flat.shape[-1] <= len(LINE_COLORS) else _image(flat, edges)
    if counts is None:
        return draw

    def draw_with_counts(ax: Axes, trial: int) -> None:
        draw(ax, trial)
        height = 0.07 * _repeat_last(counts[trial].mean(axis=-1)) / (np.max(counts) or 1.0)
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
        counted = np.ones(values.shape[1:]) if counts is None else counts[trial]
        for index, feature in enumerate(values[trial].T):
            look: Any = {"color": LINE_COLORS[index], "linewidth": 1.0 + 0.7 * (len(names) - 1 - index)}
            counted_values = np.where(counted[:, index] > 0, feature, np.nan)
            ax.step(edges, _repeat_last(feature), where="post", alpha=0.25, **look)
            ax.step(edges, _repeat_last(counted_values), where="post", label=names[index], **look)
        ax.margins(y=0.12)

    return draw


def _repeat_last(values: Float[np.ndarray, " time"]) -> Float[np.ndarray, " edge"]:
    return np.append(values, values[-1])


def _image(
    values: Float[np.ndarray, "trial time feature"], edges: Float[np.ndarray, " edge"]
) -> Callable[[Axes, int], None]:
    """Return a function that draws an image, blue to red for signed values, else grey, with zeros clear."""
    most = float(np.abs(values).max()) or 1.0
    has_sign = bool((values < 0).any())
    colors = {"cmap": "RdBu_r" if has_sign else "Greys", "vmin": -most if has_sign else -0.1, "vmax": most}
    n_features = values.shape[-1]

    def draw(ax: Axes, trial: int) -> None:
        shown = np.ma.masked_equal(values[trial].T, 0.0)
        ax.pcolormesh(edges, np.arange(n_features + 1) + 0.5, shown, zorder=1, rasterized=True, **colors)
        ax.set_yticks([1, n_features])

    return draw


def intervention_bars(trials: Trial) -> Callable[[Axes, int], None]:
    """Return a function that draws, of one of stacked trials, a bar where each intervention is active.

    Parameters of up to three numbers, such as a force, are written over the bar, in their SI units.
    """
    dt, names = trials.timeline.dt, sorted(trials.interventions)

    def draw(ax: Axes, trial: int) -> None:
        for row, name in enumerate(names):
            schedule = trials.interventions[name]
            active = np.concatenate([[0], schedule.active[trial], [0]]).astype(int)
            starts, ends = np.flatnonzero(np.diff(active) > 0), np.flatnonzero(np.diff(active) < 0)
            bars = [(dt * start, dt * (end - start)) for start, end in zip(starts, ends, strict=True)]
            ax.broken_barh(bars, (row - 0.2, 0.4), color=LINE_COLORS[row % len(LINE_COLORS)])
            leaves = [np.ravel(leaf[trial]) for leaf in jax.tree.leaves(schedule.parameters)]
            numbers = np.concatenate([*leaves, np.zeros(0)])
            if bars and 0 < numbers.size <= 3:
                text = ", ".join(_label(number) for number in numbers)
                beside: Any = {"xytext": (2, 0), "textcoords": "offset points", "va": "bottom"}
                ax.annotate(text, (bars[0][0], row + 0.22), fontsize=FONT_SIZE, **beside)
        ax.set_yticks(range(len(names)), names)
        extend_limits(ax, y=(-0.6, len(names) - 0.2))

    return draw


def _title(trials: Trial, trial: int) -> str:
    """Return the conditions of a trial as text, without those of more than three numbers or with NaN."""
    labels = {name: np.ravel(values[trial]) for name, values in trials.conditions.items()}
    conditions = [
        f"{name} {', '.join(_label(value) for value in values)}{_unit(name)}"
        for name, values in labels.items()
        if 0 < values.size <= 3 and not np.any(np.isnan(values))
    ]
    return textwrap.fill("; ".join(condition.replace(" ", UNBROKEN) for condition in conditions), TITLE_WIDTH)


def _unit(name: str) -> str:
    unit = UNITS.get(re.sub(r" \d+$", "", name))
    return "" if unit is None else f" {unit}"


def _label(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return f"{round(float(value), 6) + 0.0:.3g}"


def shown_signals(trials: Trial) -> dict[str, Shaped[np.ndarray, "trial time features"]]:
    """Return by name what the environment shows if actions are random, and hands stay where they start."""
    environment = trials.environment
    if environment is None:
        return {}
    shape = (n_trials(trials), trials.timeline.n_steps)
    match environment.actions:
        case Discrete(n=n):
            actions: PyTree[Array] = jax.random.randint(seed_key(0), shape, 0, n)
        case Box(n=n):
            actions = jax.random.normal(seed_key(0), (*shape, n))
        case _:
            actions = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf[:, None], (*shape, leaf.shape[-1])), trials.init
            )
    return jax.tree.map(np.asarray, _observations(trials, actions))


@jit
def _observations(trials: Trial, actions: PyTree[Array]) -> dict[str, Float[Array, "trial time features"]]:
    def observe(trial: Trial, actions: PyTree[Array]) -> dict[str, Float[Array, "time features"]]:
        environment = trial.environment
        assert environment is not None
        first = jax.tree.map(lambda leaf: leaf[0], actions)

        def step(interaction, at_step):
            action, index = at_step
            key = folded_key(seed_key(0), index)
            interaction = respond(environment, interaction, action, key=key)
            return interaction, interaction.received

        start = start_interaction(environment, first, None, key=seed_key(0))
        return jax.lax.scan(step, start, (actions, jnp.arange(trial.timeline.n_steps)))[1]

    return jax.vmap(observe)(trials, actions)
