"""The numbers that a figure shows, as CSV."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from popsim._shared.text_checks import as_cell

MOST_ROWS = 2500
COLUMNS = ("panel", "kind", "series", "x", "y", "value")

Series = tuple[str, str, Float[np.ndarray, "row column"]]
"""Its kind and name, and its numbers x and y, with the value of a map as the third."""


def figure_csv(figure: Figure) -> tuple[str, int]:
    """Return what is drawn in a figure, a row for each point, and the step between the points of a series.

    The step is above 1 if there are more than `MOST_ROWS` points.
    """
    panels = [
        (_panel_name(ax), list(_drawn_series(ax))) for ax in figure.axes if ax.get_label() != "<colorbar>"
    ]
    n_rows = sum(len(points) for _, several in panels for _, _, points in several)
    step = -(-n_rows // MOST_ROWS) or 1
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for panel, several in panels:
        for kind, series, points in several:
            labels = [as_cell(each) for each in (panel, kind, series)]
            for row in points[::step]:
                numbers = [f"{number:.6g}" for number in row]
                writer.writerow([*labels, *numbers, *[""] * (len(COLUMNS) - len(labels) - len(numbers))])
    return text.getvalue(), step


def _panel_name(ax: Axes) -> str:
    return " against ".join(filter(None, (ax.get_ylabel(), ax.get_xlabel()))) or ax.get_title()


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
        values = np.ma.filled(np.ma.asarray(image.get_array(), float), np.nan)
        if values.ndim == 2:
            left, right, bottom, top = image.get_extent()
            first_to_last = (bottom, top) if image.origin == "lower" else (top, bottom)
            yield "map", _name(image, number), _map_points(values, (left, right), first_to_last)


def _collection_series(marks: Any, name: str) -> Iterator[Series]:
    if isinstance(marks, PathCollection):
        yield "points", name, np.ma.filled(np.ma.asarray(marks.get_offsets(), float), np.nan)
    elif isinstance(marks, LineCollection):
        segments = [np.asarray(segment, float) for segment in marks.get_segments()]
        if segments:
            yield "segments", name, np.concatenate(segments)
    elif isinstance(marks, QuadMesh):
        corners = np.asarray(marks.get_coordinates(), float)
        centers = (corners[:-1, :-1] + corners[1:, 1:]) / 2
        values = np.ma.filled(np.ma.asarray(marks.get_array(), float), np.nan).reshape(-1)
        yield "map", name, np.column_stack([centers.reshape(-1, 2), values])
    elif isinstance(marks, PolyCollection):
        for path in marks.get_paths():
            x, y = np.asarray(path.vertices, float).T
            at, inverse = np.unique(x, return_inverse=True)
            ends = np.full((2, at.size), np.inf)
            np.minimum.at(ends[0], inverse, y)
            np.minimum.at(ends[1], inverse, -y)
            yield "lower end of a band", name, np.column_stack([at, ends[0]])
            yield "upper end of a band", name, np.column_stack([at, -ends[1]])


def _map_points(
    values: Float[np.ndarray, "row column"], x_ends: tuple[float, float], y_ends: tuple[float, float]
) -> Float[np.ndarray, "point 3"]:
    """Return the centre of each pixel of an image with its value, from the first row on."""
    n_rows, n_columns = values.shape
    x = x_ends[0] + (np.arange(n_columns) + 0.5) * (x_ends[1] - x_ends[0]) / n_columns
    y = y_ends[0] + (np.arange(n_rows) + 0.5) * (y_ends[1] - y_ends[0]) / n_rows
    grid = np.meshgrid(x, y)
    return np.column_stack([grid[0].ravel(), grid[1].ravel(), values.ravel()])


def _name(artist: Any, number: int) -> str:
    """Return the label of an artist, or its number if it has none of its own."""
    label = str(artist.get_label() or "")
    return str(number) if not label or label.startswith("_") else label
