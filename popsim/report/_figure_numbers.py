"""The numbers that a figure shows, as CSV."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

MOST_ROWS = 2500
COLUMNS = ("panel", "kind", "series", "x", "y", "value")

Series = tuple[str, str, Float[np.ndarray, "row column"]]
"""Its kind and name, and its numbers x and y, with the value of a map as the third."""


def figure_csv(figure: Figure) -> tuple[str, int]:
    """Return what is drawn in a figure, a row for each point, and the step between the points of a series.

    The step is above 1 if there are more than `MOST_ROWS` points.
    """
    panels = []
    for ax in (ax for ax in figure.axes if ax.get_label() != "<colorbar>"):
        name = " against ".join(filter(None, (ax.get_ylabel(), ax.get_xlabel()))) or ax.get_title()
        panels.append((name, list(_drawn_series(ax))))
    n_rows = sum(len(points) for _, several in panels for _, _, points in several)
    step = -(-n_rows // MOST_ROWS) or 1
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for panel, several in panels:
        for kind, series, points in several:
            labels = (panel, kind, series)
            for row in points[::step]:
                numbers = [f"{number:.6g}" for number in row]
                writer.writerow([*labels, *numbers, *[""] * (len(COLUMNS) - len(labels) - len(numbers))])
    return text.getvalue(), step


def _drawn_series(ax: Axes) -> Iterator[Series]:
    """Return what has data coordinates in axes; lines across axes, such as those at zero, do not."""
    for number, line in enumerate(ax.lines):
        if line.get_transform() == ax.transData:
            yield "line", _name(line, number), np.asarray(line.get_xydata(), float)
    for number, marks in enumerate(ax.collections):
        yield from _collection_series(marks, _name(marks, number))
    for container in ax.containers:
        if isinstance(container, BarContainer):
            bars = [(bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height()) for bar in container]
            yield "bar", _name(container, 0), np.array(bars, float).reshape(-1, 2)
    for number, image in enumerate(ax.images):
        values = _filled(image.get_array())
        if values.ndim == 2:
            left, right, *rows = image.get_extent()
            first, last = rows if image.origin == "lower" else reversed(rows)
            n_rows, n_columns = values.shape
            # Of each pixel, its centre.
            x = np.linspace(left, right, 2 * n_columns + 1)[1::2]
            y = np.linspace(first, last, 2 * n_rows + 1)[1::2]
            grid = np.meshgrid(x, y)
            yield "map", _name(image, number), np.column_stack([*map(np.ravel, grid), values.ravel()])


def _collection_series(marks: Any, name: str) -> Iterator[Series]:
    if isinstance(marks, PathCollection):
        yield "points", name, _filled(marks.get_offsets())
    elif isinstance(marks, LineCollection):
        segments = [np.asarray(segment, float) for segment in marks.get_segments()]
        if segments:
            yield "segments", name, np.concatenate(segments)
    elif isinstance(marks, QuadMesh):
        corners = np.asarray(marks.get_coordinates(), float)
        centers = (corners[:-1, :-1] + corners[1:, 1:]) / 2
        yield "map", name, np.column_stack([centers.reshape(-1, 2), _filled(marks.get_array()).ravel()])
    elif isinstance(marks, PolyCollection):
        for path in marks.get_paths():
            x, y = np.asarray(path.vertices, float).T
            ends = pd.Series(y).groupby(x).agg(["min", "max"])
            yield "lower end of a band", name, np.column_stack([ends.index, ends["min"]])
            yield "upper end of a band", name, np.column_stack([ends.index, ends["max"]])


def _filled(values: Any) -> np.ndarray:
    """Return numbers with NaN for those that are masked."""
    return np.ma.filled(np.ma.asarray(values, float), np.nan)


def _name(artist: Any, number: int) -> str:
    """Return the label of an artist, or its number if it has none of its own."""
    label = str(artist.get_label() or "")
    return str(number) if not label or label.startswith("_") else label
