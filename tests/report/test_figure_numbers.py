"""The numbers of figures as CSV."""

import csv
import io

import matplotlib.pyplot as plt
import numpy as np
import pytest

from popsim.report._figure_numbers import COLUMNS, MOST_ROWS, figure_csv


@pytest.fixture
def figure():
    figure = plt.figure()
    yield figure
    plt.close(figure)


def rows_of(figure):
    text, step = figure_csv(figure)
    header, *rows = csv.reader(io.StringIO(text))
    assert tuple(header) == COLUMNS
    return rows, step


def test_lines_bands_points_and_maps_are_what_was_drawn(figure):
    line, image = figure.subplots(1, 2)
    line.plot([1, 2], [3.0, 4.5], label="a")
    line.fill_between([1, 2], [2.0, 4.0], [5.0, 6.0], label="band")
    line.scatter([7.0], [8.0], label="points")
    line.axhline(0.0)
    line.set(xlabel="time (s)", ylabel="speed")
    figure.colorbar(image.imshow(np.array([[1.0, 2.0], [3.0, np.nan]])), ax=image)
    rows, step = rows_of(figure)
    assert step == 1 and rows[:2] == [
        ["speed against time (s)", "line", "a", "1", "3", ""],
        ["speed against time (s)", "line", "a", "2", "4.5", ""],
    ]
    ends = [(end, "band") for end in ("lower end of a band", "upper end of a band") for _ in range(2)]
    assert [tuple(row[1:3]) for row in rows[2:7]] == [*ends, ("points", "points")]
    assert [" ".join(row[3:5]) for row in rows[2:7]] == ["1 2", "2 4", "1 5", "2 6", "7 8"]
    assert [" ".join(row[3:]) for row in rows[7:]] == ["0 0 1", "1 0 2", "0 1 3", "1 1 nan"]


def test_long_series_are_thinned(figure):
    ax = figure.subplots()
    ax.plot(np.arange(MOST_ROWS + 1))
    rows, step = rows_of(figure)
    assert step == 2 and [float(row[4]) for row in rows[:3]] == [0, 2, 4]
