import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from popsim.analysis.figures import (
    STYLE_SHEET,
    direction_colors,
    draw_channels,
    draw_direction_key,
    draw_hand_paths,
    draw_hidden_activity,
    draw_learning_curves,
    draw_loss_bands,
    draw_mean_speed,
    draw_member_values,
    draw_muscle_activations,
    draw_preferred_directions,
    draw_speed_profiles,
    figure_style,
    save_figure,
)
from popsim.analysis.figures.style import COLORS


def test_learning_curves_have_thin_members_and_their_geometric_mean(ax):
    loss = np.array([[1.0, 4.0], [0.01, 0.04]])
    assert draw_learning_curves(ax, np.arange(2), loss) is ax
    mean, *members = ax.lines
    assert len(members) == 2 and all(line.get_linewidth() < mean.get_linewidth() for line in members)
    np.testing.assert_allclose(mean.get_ydata(), [2.0, 0.02])
    assert mean.get_zorder() > members[0].get_zorder()
    assert ax.get_yscale() == "log" and ax.get_xlabel() == "training batch"
    draw_learning_curves(ax, np.arange(2), loss, label="other")
    assert len({line.get_color() for line in ax.lines}) == 2


@pytest.mark.parametrize("n_batches", [1, 2, 3])
def test_fewer_than_three_log_points_are_dots_that_no_line_joins(ax, n_batches):
    draw_learning_curves(ax, np.arange(n_batches), np.full((n_batches, 2), 0.5))
    assert {line.get_linestyle() for line in ax.lines} == {"-" if n_batches > 2 else "None"}
    assert ax.lines[0].get_marker() == "."


def test_losses_begin_at_the_first_batch_and_have_room_at_the_last(ax):
    draw_loss_bands(ax, np.array([4, 9]), np.ones((2, 3)), label="one", color="C0", x_scale="linear")
    low, high = ax.get_xlim()
    assert ax.get_xscale() == "linear" and 0.5 < low < 1 and 10 < high < 10.5
    draw_learning_curves(ax, np.array([4, 99]), np.ones((2, 3)))
    low, high = ax.get_xlim()
    assert ax.get_xscale() == "log" and 0.5 < low < 1 and 100 < high < 120


def test_muscle_activations_have_a_named_line_each(ax):
    activation = np.array([[0.0, 0.1], [0.2, 0.3], [0.4, 0.5]])
    assert draw_muscle_activations(ax, activation, dt=0.01, names=["biceps", "triceps"]) is ax
    np.testing.assert_allclose(ax.lines[1].get_xydata(), [[0.01, 0.1], [0.02, 0.3], [0.03, 0.5]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["biceps", "triceps"]
    assert ax.get_ylim()[0] == 0


def test_preferred_directions_point_where_activity_is_largest(ax):
    preferred, depth = np.array([[0.0, np.pi / 2], [np.pi, 0.0]]), np.array([[1.0, 2.0], [0.5, 0.1]])
    assert draw_preferred_directions(ax, preferred, depth) is ax
    tips = [line.get_xydata()[1] for line in ax.lines]
    np.testing.assert_allclose(tips, [[1, 0], [-0.5, 0], [0, 2], [0.1, 0]], atol=1e-12)
    assert len(ax.get_legend().get_texts()) == 2 and ax.get_xlim()[1] > 2


def test_hand_paths_are_in_centimetres_and_begin_at_the_start(ax):
    positions = np.full((2, 1, 3, 2), 0.1)
    assert draw_hand_paths(ax, positions, np.zeros((1, 2)), np.full((1, 2), 0.1)) is ax
    x, y = ax.lines[0].get_data()
    assert (x[0], y[0]) == (0.0, 0.0) and (x[-1], y[-1]) == (10.0, 10.0)
    assert ax.patches[0].center == (10.0, 10.0) and "cm" in ax.get_xlabel()


def test_the_key_of_directions_has_their_colours(ax):
    assert draw_direction_key(ax, label="target") is ax and ax.get_title() == "target"
    angles = np.array([np.arctan2(*line.get_xydata()[-1, ::-1]) for line in ax.lines])
    np.testing.assert_allclose(np.sort(np.mod(angles, 2 * np.pi)), np.arange(8) * np.pi / 4, atol=1e-9)
    np.testing.assert_allclose([line.get_color() for line in ax.lines], direction_colors(angles))


def test_speed_profiles_start_at_the_first_step(ax):
    speed = np.ones((2, 4, 5)) * [[[0.1]], [[0.2]]]
    assert draw_speed_profiles(ax, speed, dt=0.01) is ax
    time, mean = ax.lines[1].get_data()
    np.testing.assert_allclose(time, [0.01, 0.02, 0.03, 0.04, 0.05])
    np.testing.assert_allclose(mean, 0.2)


def test_loss_bands_are_the_mean_and_the_range_of_members_that_stayed_finite(ax):
    loss = np.array([[1.0, 4.0, 9.0], [0.01, 0.04, np.nan]])
    assert draw_loss_bands(ax, np.arange(2), loss, label="one", color="C0") is ax
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[1, 2.0], [2, 0.02]])
    edges = ax.collections[0].get_paths()[0].vertices
    assert {1.0, 4.0, 0.01, 0.04} == set(edges[:, 1]) and ax.get_yscale() == "log"
    with pytest.raises(ValueError, match="finite for at least one member"):
        draw_loss_bands(ax, np.arange(1), np.full((1, 2), np.nan), label="none", color="C1")


def test_member_values_are_points_with_a_bar_at_the_mean_of_the_finite(ax):
    values = [np.array([1.0, 3.0]), np.array([np.nan, 5.0]), np.zeros(0)]
    assert draw_member_values(ax, values, names=["a", "b", "c"], label="error (mm)") is ax
    points, bar, other, _ = ax.lines  # none of the third
    np.testing.assert_allclose(points.get_xdata(), [1, 3])
    np.testing.assert_allclose(bar.get_xdata(), [2, 2])
    np.testing.assert_allclose(other.get_xydata(), [[5, 1]])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    with pytest.raises(ValueError, match="`names` must be 3"):
        draw_member_values(ax, values, names=["a"], label="error (mm)")


def test_mean_speed_shows_all_of_each_ensemble(ax):
    for peak in (0.1, 0.4):
        speed = peak * np.array([[[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [5.0, 6.0]]])
        assert draw_mean_speed(ax, speed, dt=0.01, label="one", color="C0") is ax
    np.testing.assert_allclose(ax.lines[1].get_xydata(), [[0.01, 1.2], [0.02, 1.6]])
    edges = ax.collections[1].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edges.min(), edges.max()], [0.8, 2.0])
    assert ax.get_ylim()[1] >= 2.0


def test_inputs_are_drawn_when_they_come_and_outputs_at_the_end_of_a_step(ax):
    values = np.array([[0.0], [1.0], [2.0]])
    assert draw_channels(ax, values, dt=0.1, first_at=0.0) is ax
    draw_channels(ax, values, dt=0.1, targets=values)
    given, output, target = ax.lines
    np.testing.assert_allclose(given.get_xdata(), [0.0, 0.1, 0.2])
    np.testing.assert_allclose([output.get_xdata(), target.get_xdata()], [[0.1, 0.2, 0.3]] * 2)
    np.testing.assert_allclose(ax.get_xlim(), (0.0, 0.3))


def test_hidden_activity_shows_every_unit_on_a_symmetric_scale(ax):
    hidden = np.random.default_rng(0).normal(size=(20, 6))
    assert draw_hidden_activity(ax, hidden, dt=0.01) is ax
    image = ax.images[0]
    assert image.get_array().shape == (6, 20) and image.get_clim() == (
        -np.abs(hidden).max(),
        np.abs(hidden).max(),
    )


def test_directions_have_colours_that_show_on_white():
    colors = direction_colors(np.linspace(0, 2 * np.pi, 8, endpoint=False))
    assert len(np.unique(colors, axis=0)) == 8 and colors[:, :3].mean(axis=1).max() < 0.8


def test_the_style_ends_with_its_block_and_text_stays_editable(ax, tmp_path):
    before = matplotlib.rcParams["font.size"]
    with figure_style():
        assert matplotlib.rcParams["pdf.fonttype"] == 42
        paths = save_figure(ax.figure, tmp_path / "figures", "empty")
    assert matplotlib.rcParams["font.size"] == before
    assert [path.name for path in paths] == ["empty.png", "empty.pdf"] and all(p.exists() for p in paths)


def test_the_style_sheet_can_be_used_by_its_name(ax):
    with plt.style.context(STYLE_SHEET):
        assert tuple(plt.rcParams["axes.prop_cycle"].by_key()["color"]) == COLORS
        assert plt.rcParams["svg.fonttype"] == "none" and plt.rcParams["axes.labelsize"] == 8


@pytest.mark.parametrize("draw", [draw_learning_curves, draw_loss_bands])
def test_losses_that_are_not_above_zero_have_a_linear_axis_and_mean(draw):
    _, ax = plt.subplots()
    batch, loss = np.arange(40), np.linspace([1.0, 3.0], [-5.0, -3.0], 40)
    draw(ax, batch, loss, label="training", color="C0")
    draw(ax, batch[::10], np.full((4, 2), 2.0), label="validation", color="C1")
    assert ax.get_yscale() == "linear"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), loss.mean(axis=1))
    np.testing.assert_allclose(ax.get_lines()[-1].get_ydata(), 2.0)
