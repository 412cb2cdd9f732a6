"""Drawings of fixed points and of linearised dynamics."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from popsim.analysis.figures import draw_fixed_points, draw_jacobian_eigenvalues, draw_time_constants


@pytest.fixture(params=[None, "3d"], ids=["2d", "3d"])
def ax(request):
    figure = plt.figure()
    yield figure.add_subplot(projection=request.param)
    plt.close(figure)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_points_differ_in_shape_and_colour_by_their_unstable_directions(ax):
    n_axes = 3 if ax.name == "3d" else 2
    points, n_unstable = np.arange(5.0 * n_axes).reshape(5, n_axes), np.array([0, 0, 1, 3, 7])
    paths = np.random.default_rng(0).normal(size=(4, 20, n_axes))
    assert draw_fixed_points(ax, points, n_unstable, paths=paths) is ax
    assert legend_of(ax) == ["stable", "1 unstable", "3 unstable", "4 or more unstable"]
    assert len(ax.lines) == 4 and len(ax.collections) == 4
    assert len({tuple(drawn.get_facecolor()[0]) for drawn in ax.collections}) == 4
    assert len({drawn.get_paths()[0].vertices.tobytes() for drawn in ax.collections}) == 4
    with pytest.raises(ValueError, match="`points` must be 5, in"):
        draw_fixed_points(ax, np.zeros((5, 5 - n_axes)), n_unstable)


@pytest.fixture
def plane():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_eigenvalues_are_where_they_are_beside_the_unit_circle(plane):
    eigenvalues = np.array([[0.5 + 0.1j, 0.5 - 0.1j], [1.5, -0.2]])
    assert draw_jacobian_eigenvalues(plane, eigenvalues, np.array([0, 1])) is plane
    assert plane.patches[0].radius == 1 and plane.patches[0].center == (0, 0)
    stable, saddle = (drawn.get_offsets() for drawn in plane.collections)
    np.testing.assert_allclose(stable, [[0.5, 0.1], [0.5, -0.1]])
    np.testing.assert_allclose(saddle, [[1.5, 0], [-0.2, 0]])
    assert legend_of(plane) == ["stable", "1 unstable"]
    assert plane.get_xlim()[1] > 1.5 and plane.get_ylim()[1] > 1


def test_four_and_more_unstable_directions_look_alike_and_are_called_so(plane):
    draw_jacobian_eigenvalues(plane, np.full((3, 2), 1.5 + 0j), np.array([3, 4, 9]))
    assert legend_of(plane) == ["3 unstable", "4 or more unstable"]
    plane.clear()
    draw_time_constants(plane, np.full((3, 2), 0.2), np.array([3, 4, 9]))
    assert legend_of(plane) == ["3 unstable", "4 or more unstable"]


def test_a_legend_of_many_kinds_reads_from_left_to_right(plane):
    draw_jacobian_eigenvalues(plane, np.full((5, 2), 0.5 + 0j), np.arange(5))
    plane.figure.canvas.draw()
    texts = plane.get_legend().get_texts()
    places = [(-round(text.get_window_extent().y0), text.get_window_extent().x0) for text in texts]
    read = [text for _, text in sorted(zip(places, legend_of(plane), strict=True))]
    assert read == ["stable", "1 unstable", "2 unstable", "3 unstable", "4 or more unstable"]


def test_time_constants_are_in_milliseconds_slowest_first_and_growth_is_marked(plane):
    tau = np.array([[0.01, 0.2, 0.05, 0.0], [np.inf, -0.1, 0.03, 0.02]])
    assert draw_time_constants(plane, tau, np.array([0, 1]), n_modes=3) is plane
    lines = [line for line in plane.lines if len(line.get_xdata())]
    np.testing.assert_allclose(lines[0].get_ydata(), [200, 50, 10])
    np.testing.assert_allclose(lines[2].get_ydata(), [100, 30, 20])
    (grows,) = (line for line in lines if line.get_marker() == "o" and len(line.get_xdata()))
    np.testing.assert_allclose(grows.get_xydata(), [[1, 100]])
    assert plane.get_yscale() == "log" and "ms" in plane.get_ylabel()
