"""Drawings of what units did together: what they show, in which units."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from popsim.analysis.figures import (
    direction_colors,
    draw_cross_temporal_decoding,
    draw_decoding,
    draw_demixed_component,
    draw_explained_variance,
    draw_hidden_activity,
    draw_rotation_plane,
    draw_state_space,
    draw_tangling,
    draw_tuning_curves,
)

DIRECTION = np.array([0.0, 2.0])
PATHS = np.random.default_rng(0).normal(size=(2, 5, 3))


def test_trials_go_through_state_space_from_a_ring_to_a_dot(ax):
    assert draw_state_space(ax, PATHS[..., :2], direction=DIRECTION, explained=np.array([0.5, 0.25])) is ax
    path, start, end = ax.lines[3:]
    np.testing.assert_allclose(path.get_xydata(), PATHS[1, :, :2])
    np.testing.assert_allclose([start.get_xydata()[0], end.get_xydata()[0]], PATHS[1, [0, -1], :2])
    assert start.get_markerfacecolor() == "white"
    np.testing.assert_allclose(end.get_color(), direction_colors(DIRECTION)[1])
    key = [text.get_text() for text in ax.get_legend().get_texts()]
    assert key == ["first step", "last step", *(f"direction {angle}°" for angle in (0, 90, 180, 270))]
    assert ax.get_xlabel() == "component 1 (50 %)" and ax.get_ylabel() == "component 2 (25 %)"


def test_three_components_need_axes_in_3d(ax):
    with pytest.raises(ValueError, match="`projections`"):
        draw_state_space(ax, PATHS)
    figure, solid = plt.subplots(subplot_kw={"projection": "3d"})
    draw_state_space(solid, PATHS)
    np.testing.assert_allclose(np.stack(solid.lines[0].get_data_3d()), PATHS[0].T)
    assert solid.get_zlabel() == "component 3"
    with pytest.raises(ValueError, match="`projections`"):
        draw_state_space(solid, PATHS[..., :2])
    plt.close(figure)


def half_height(band):
    """Of a band at each place, from left to right."""
    corners = band.get_paths()[0].vertices
    return np.array([np.ptp(corners[corners[:, 0] == x, 1]) / 2 for x in np.unique(corners[:, 0])])


def test_explained_variance_adds_up_in_percent(ax):
    explained = np.array([[0.5, 0.25, 0.25], [0.7, 0.2, 0.1]])
    assert draw_explained_variance(ax, explained) is ax
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], [60, 22.5, 17.5])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [50, 75, 100])
    np.testing.assert_allclose(ax.lines[-1].get_xydata(), [[1, 60], [2, 82.5], [3, 100]])
    np.testing.assert_allclose(half_height(ax.collections[0])[:2], np.array([10, 7.5]) * np.sqrt(2))
    ax.clear()
    assert not draw_explained_variance(ax, explained[:1]).collections  # one member does not spread


def test_a_demixed_component_over_time(ax):
    values = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])
    assert (
        draw_demixed_component(ax, values, dt=0.1, direction=DIRECTION, part="direction", explained=0.4) is ax
    )
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[0.1, 1], [0.2, 2], [0.3, 3]])
    assert ax.get_title() == "direction, 40.0 % of variance"


def test_a_rotation_points_onward(ax):
    quarter = np.linspace(0, np.pi / 2, 50)
    path = np.stack([np.cos(quarter), np.sin(quarter)], axis=1)
    assert draw_rotation_plane(ax, path[None], frequency=1.234) is ax
    np.testing.assert_allclose(ax.lines[2].get_xydata(), [[0, 1]], atol=1e-12)
    n_corners, _, turned = ax.lines[2].get_marker()
    assert n_corners == 3 and abs(turned - 90) < 2  # the tip of the triangle, at first upward, to the left
    assert ax.get_title() == "1.2 Hz"


def test_tuning_curves_of_single_trials_have_no_bars(ax):
    direction, mean = np.array([-1.0, 0.0, 1.0]), np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 0.0]])
    draw_tuning_curves(ax, direction, mean, np.full((3, 2), np.nan))
    assert ax.get_ylim()[0] < 0 and 3 < ax.get_ylim()[1] < 5
    ax.figure.canvas.draw()


def test_tuning_curves_are_in_degrees_with_their_cosines(ax):
    direction = np.array([-np.pi / 2, 0.0, np.pi / 2])
    mean = np.array([[1.0], [3.0], [1.0]])
    cosine = np.array([[1.0], [2.0], [0.0]])
    assert draw_tuning_curves(ax, direction, mean, 0.5 * mean, cosine=cosine, names=["deltoid"]) is ax
    (container,) = ax.containers
    np.testing.assert_allclose(container[0].get_xydata(), [[-90, 1], [0, 3], [90, 1]])
    np.testing.assert_allclose(container[2][0].get_segments()[1], [[0, 1.5], [0, 4.5]])
    fitted = dict(ax.lines[-1].get_xydata())
    np.testing.assert_allclose([fitted[0.0], fitted[180.0]], [3, -1])


def test_decoding_has_members_mean_chance_and_shuffles(ax):
    accuracy, shuffled = np.array([[0.2, 0.8], [0.4, 1.0]]), np.full((3, 2, 2), 0.25)
    assert draw_decoding(ax, np.array([0.1, 0.2]), accuracy, chance=0.25, shuffled=shuffled) is ax
    chance, *members, mean = ax.lines
    assert set(chance.get_ydata()) == {0.25} and len(members) == 2
    np.testing.assert_allclose(mean.get_xydata(), [[0.1, 0.3], [0.2, 0.9]])
    assert len(ax.collections) == 2
    np.testing.assert_allclose(half_height(ax.collections[1]), 0.1 * np.sqrt(2))  # of n - 1
    ax.clear()
    assert not draw_decoding(ax, np.array([0.1, 0.2]), accuracy[:1], chance=0.25).collections


def test_decoding_across_times_has_the_tested_time_to_the_right(ax):
    accuracy = np.array([[1.0, 0.25], [0.5, 1.0]])
    assert draw_cross_temporal_decoding(ax, np.array([0.1, 0.3]), accuracy, chance=0.25) is ax
    (image,) = ax.images
    assert image.get_array()[0, 1] == 0.25 and image.origin == "lower" and image.get_clim() == (0.25, 1.0)
    np.testing.assert_allclose(image.get_extent(), [0, 0.4, 0, 0.4], atol=1e-12)
    assert "tested" in ax.get_xlabel() and "fitted" in ax.get_ylabel()


def test_tangling_of_the_network_goes_up(ax):
    reference, network = np.array([[[1.0, 2.0]]]), np.array([[[10.0, 20.0]]])
    assert draw_tangling(ax, reference, network, reference_name="muscles") is ax
    np.testing.assert_allclose(ax.lines[1].get_xydata(), [[1, 10], [2, 20]])
    assert ax.get_xlabel().startswith("tangling of the muscles") and ax.get_xlim() == ax.get_ylim()


def test_units_are_ordered_by_the_time_of_their_peak(ax):
    hidden = np.array([[0.1, 1.0], [-2.0, 0.0]])
    assert draw_hidden_activity(ax, hidden, dt=0.1) is ax
    np.testing.assert_allclose(ax.images[0].get_array(), [[1.0, 0.0], [0.1, -2.0]])
    assert matplotlib.colormaps[ax.images[0].get_cmap().name](0.5)[0] > 0.9  # zero is white
