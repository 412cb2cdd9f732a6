"""Figures of populations show the numbers that they are given, at the right members."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.spatial.distance import pdist, squareform

from popsim.analysis.figures import (
    draw_dendrogram,
    draw_ensemble_band,
    draw_member_map,
    draw_paired_members,
    draw_similarity_matrix,
)
from popsim.analysis.similarity import cluster_members
from popsim.analysis.statistics import mean_interval

PLACES = np.array([[0.0, 0], [5, 5], [1, 0], [6, 5], [0, 1]])
DISTANCES = squareform(pdist(PLACES))
GROUPS = ["b", "a", "b", "a", "b"]


def test_a_matrix_has_its_groups_together_and_a_line_between_them(ax):
    assert draw_similarity_matrix(ax, DISTANCES, groups=GROUPS, label="angle") is ax
    shown = [1, 3, 0, 2, 4]
    np.testing.assert_array_equal(ax.images[0].get_array(), DISTANCES[np.ix_(shown, shown)])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b"]
    np.testing.assert_allclose(ax.get_xticks(), [0.5, 3.0])
    assert [line.get_ydata()[0] for line in ax.lines[:1]] == [1.5]


def test_a_matrix_has_the_order_that_is_given(ax):
    draw_similarity_matrix(ax, DISTANCES, order=np.array([4, 2, 0, 3, 1]))
    assert ax.images[0].get_array()[0, 1] == DISTANCES[4, 2]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["4", "2", "0", "3", "1"]


def test_a_map_has_a_colour_and_a_marker_for_each_group(ax):
    assert draw_member_map(ax, PLACES, groups=GROUPS, fraction=0.756) is ax
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), PLACES[[1, 3]])
    first, second = ax.lines
    assert first.get_color() != second.get_color() and first.get_marker() != second.get_marker()
    assert ax.get_title() == "the map shows 76 % of the spread" and ax.get_aspect() == 1.0


def test_a_map_without_groups_has_the_numbers_of_members(ax):
    draw_member_map(ax, PLACES)
    assert [(text.get_text(), text.xy) for text in ax.texts][3] == ("3", (6.0, 5.0))


def test_a_dendrogram_joins_at_the_distances_of_clusters(ax):
    linkage = cluster_members(DISTANCES).linkage
    assert draw_dendrogram(ax, linkage, groups=GROUPS, label="angle") is ax
    heights = sorted(float(line.get_ydata().max()) for line in ax.lines)
    np.testing.assert_allclose(heights, linkage[:, 2])
    leaves = [(text.get_text(), to_hex(text.get_color())) for text in ax.get_xticklabels()]
    assert sorted(name for name, _ in leaves) == sorted(GROUPS) and len(set(leaves)) == 2
    names = "".join(name for name, _ in leaves)
    assert names in ("aabbb", "bbbaa") and ax.get_ylabel() == "angle"


@pytest.mark.parametrize("method, said", [("t", "95 % interval"), ("range", "range")])
def test_a_band_is_the_interval_that_its_legend_names(ax, method, said):
    values = np.array([[0.0, 1.0, 4.0], [2.0, 3.0, 5.0], [1.0, 8.0, 0.0]])
    assert draw_ensemble_band(ax, np.arange(3.0), values, method=method, label="error") is ax
    expected = mean_interval(values, method=method)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected.estimate)
    corners = ax.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(
        [corners[:, 1].min(), corners[:, 1].max()], [min(expected.low), max(expected.high)]
    )
    assert ax.get_legend().get_texts()[0].get_text() == f"error, {said} (n = 3)"


def test_paired_members_have_a_line_each_and_the_mean_of_conditions(ax):
    values = np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 3.0]])
    assert draw_paired_members(ax, values, names=["before", "after"], label="error (mm)") is ax
    np.testing.assert_array_equal([line.get_ydata() for line in ax.lines[:3]], values)
    np.testing.assert_allclose(ax.lines[3].get_ydata(), [1.0, 3.0])
    ends = [segment[:, 1] for segment in ax.collections[0].get_segments()]
    interval = mean_interval(values)
    np.testing.assert_allclose(ends, np.stack([interval.low, interval.high], axis=1))
    assert [text.get_text() for text in ax.get_xticklabels()] == ["before", "after"]


@pytest.mark.parametrize(
    "draw, message",
    [
        (lambda ax: draw_similarity_matrix(ax, DISTANCES, groups=["a"]), "`groups`"),
        (lambda ax: draw_similarity_matrix(ax, DISTANCES, order=np.array([0, 0, 1, 2, 3])), "`order`"),
        (lambda ax: draw_member_map(ax, PLACES, groups=["a"]), "`groups`"),
        (lambda ax: draw_dendrogram(ax, cluster_members(DISTANCES).linkage, groups=["a"]), "`groups`"),
        (lambda ax: draw_paired_members(ax, PLACES, names=["one"], label=""), "`names`"),
    ],
)
def test_what_is_refused(ax, draw, message):
    with pytest.raises(ValueError, match=message):
        draw(ax)
