"""Epochs and events of a trial, drawn behind what happens in it."""

import dataclasses

import numpy as np
from jaxtyping import Shaped
from matplotlib.axes import Axes

from popsim.timeline import Timeline

EVENT_COLOR = "#D55E00"
EPOCH_SHADES = ("#F1F1F1", "#DFE7EF")
FONT_SIZE = 6  # points
LINE_HEIGHT = 8  # points


@dataclasses.dataclass(frozen=True)
class _Label:
    text: str
    left: float  # from zero to one, as far as the axes go
    right: float
    color: str

    @property
    def ends_at_line(self) -> bool:
        return self.text.endswith("|")


def draw_named_times(axes: Shaped[np.ndarray, "row trial"], timeline: Timeline) -> list[float]:
    """Shade the epochs and draw the events of each trial through its column, with their names above it.

    **Arguments:**

    - `axes`: a column for each trial.
    - `timeline`: of stacked trials.

    **Returns:** for each trial how high the names above its column are, in points.
    """
    figure = axes[0, 0].get_figure()
    width = 72 * figure.get_size_inches()[0] / (axes.shape[1] + 0.5) * 0.9  # points, about
    return [_draw_trial(column, timeline, trial, width) for trial, column in enumerate(axes.T)]


def _draw_trial(column: Shaped[np.ndarray, " row"], timeline: Timeline, trial: int, width: float) -> float:
    epochs = {name: np.asarray(bounds)[trial] for name, bounds in timeline.epochs.items()}
    there = sorted((int(first), int(end), name) for name, (first, end) in epochs.items() if end > first)
    events = {name: int(np.asarray(steps)[trial]) for name, steps in timeline.events.items()}
    come = sorted((step, name) for name, step in events.items() if step < timeline.n_steps)
    for ax in column:
        for index, (first, end, _) in enumerate(there):
            shade = EPOCH_SHADES[index % len(EPOCH_SHADES)]
            ax.axvspan(timeline.dt * first, timeline.dt * end, color=shade, linewidth=0, zorder=0)
        for step, _ in come:
            ax.axvline(timeline.dt * step, color=EVENT_COLOR, linewidth=0.8, zorder=3)
    names = [_centered(name, (first + end) / 2, timeline.n_steps, width) for first, end, name in there]
    lines = _stacked(names)
    lines += _stacked([_beside(name, step / timeline.n_steps, width) for step, name in come])
    _write(column[0], lines)
    return LINE_HEIGHT * len(lines)


def _extent(text: str, width: float) -> float:
    """How wide a text is, as a share of axes that are `width` points wide."""
    return 0.55 * FONT_SIZE * (len(text) + 1) / width


def _centered(text: str, step: float, n_steps: int, width: float) -> _Label:
    half = _extent(text, width) / 2
    middle = min(max(step / n_steps, half), max(1 - half, half))
    return _Label(text, middle - half, middle + half, "0.35")


def _beside(name: str, at: float, width: float) -> _Label:
    """To the right of the line of an event, or to its left where there is no room."""
    extent = _extent(f"| {name}", width)
    if at + extent > 1.0 and at > extent:
        return _Label(f"{name} |", at - extent, at, EVENT_COLOR)
    return _Label(f"| {name}", at, at + extent, EVENT_COLOR)


def _stacked(labels: list[_Label]) -> list[list[_Label]]:
    """The labels in as many lines as they need so that none covers another."""
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
            ax.annotate(
                label.text,
                (label.right if label.ends_at_line else label.left, 1.0),
                xycoords="axes fraction",
                xytext=(0, 2 + LINE_HEIGHT * index),
                textcoords="offset points",
                fontsize=FONT_SIZE,
                color=label.color,
                ha="right" if label.ends_at_line else "left",
                va="bottom",
            )
