"""What is special about single figures; see `test_drawn_numbers` for the numbers of all."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from popsim.analysis import figures
from popsim.analysis.learning import TwoStateParameters, simulate_two_states


@pytest.mark.parametrize("n_batches", [1, 2, 3])
def test_fewer_than_three_log_points_are_dots_that_no_line_joins(ax, n_batches):
    figures.draw_learning_curves(ax, np.arange(n_batches), np.full((n_batches, 2), 0.5))
    assert {line.get_linestyle() for line in ax.lines} == {"-" if n_batches > 2 else "None"}
    assert ax.lines[0].get_marker() == "."


def test_the_style_ends_with_its_block_and_text_stays_editable(ax, tmp_path):
    before = matplotlib.rcParams["font.size"]
    with figures.figure_style():
        assert matplotlib.rcParams["pdf.fonttype"] == 42
        paths = figures.save_figure(ax.figure, tmp_path / "figures", "empty")
    assert matplotlib.rcParams["font.size"] == before
    assert [path.name for path in paths] == ["empty.png", "empty.pdf"] and all(p.exists() for p in paths)


@pytest.mark.parametrize("draw", [figures.draw_learning_curves, figures.draw_loss_bands])
def test_losses_that_are_not_above_zero_have_a_linear_axis_and_mean(draw):
    _, ax = plt.subplots()
    batch, loss = np.arange(40), np.linspace([1.0, 3.0], [-5.0, -3.0], 40)
    draw(ax, batch, loss, label="training", color="C0")
    draw(ax, batch[::10], np.full((4, 2), 2.0), label="validation", color="C1")
    assert ax.get_yscale() == "linear"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), loss.mean(axis=1))
    np.testing.assert_allclose(ax.get_lines()[-1].get_ydata(), 2.0)


def test_a_two_state_course_shows_states_of_trials_and_shades_clamps(ax):
    field, is_clamp = np.repeat([1.0, 0.0], [6, 4]), np.repeat([False, True], [6, 4])
    learner = TwoStateParameters(*(np.full(2, value) for value in (0.6, 0.2, 0.99, 0.02)))
    course = simulate_two_states(learner, field, is_clamp)
    measured = course.adaptation[:-1] + np.array([0.1, -0.1])
    measured[3] = np.nan
    assert figures.draw_two_state_time_course(ax, measured, course, field, is_clamp) is ax
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["sum"].get_ydata(), course.adaptation[:-1, 0])
    np.testing.assert_allclose(lines["fast"].get_xydata()[5], [6, course.fast[5, 0]])
    dots = lines["measured"].get_ydata()
    assert np.isnan(dots[3])
    np.testing.assert_allclose(np.delete(dots, 3), np.delete(course.adaptation[:-1, 0], 3))
    (shade,) = ax.patches
    assert (shade.get_x(), shade.get_width()) == (6.5, 4.0)


PATHS = np.random.default_rng(0).normal(size=(2, 5, 3))


def test_three_components_need_axes_in_3d(ax):
    figure, solid = plt.subplots(subplot_kw={"projection": "3d"})
    figures.draw_state_space(solid, PATHS)
    np.testing.assert_allclose(np.stack(solid.lines[0].get_data_3d()), PATHS[0].T)
    assert solid.get_zlabel() == "component 3"
    plt.close(figure)


def test_a_rotation_points_onward(ax):
    quarter = np.linspace(0, np.pi / 2, 50)
    figures.draw_rotation_plane(ax, np.stack([np.cos(quarter), np.sin(quarter)], axis=1)[None])
    n_corners, _, turned = ax.lines[2].get_marker()
    assert n_corners == 3 and abs(turned - 90) < 2  # the tip of the triangle, at first upward, to the left


def test_an_animation_shows_each_batch_with_the_same_colours_and_is_written(ax, tmp_path, as_users_run):
    weights = np.random.default_rng(0).normal(size=(3, 2, 2))
    animation = figures.animate_weight_matrix(ax, np.array([-1, 9, 19]), weights)
    path = figures.save_animation(animation, tmp_path / "weights.gif", frames_per_second=5)
    with Image.open(path) as film:
        assert film.n_frames == 3
    np.testing.assert_array_equal(ax.images[0].get_array(), weights[-1])
    assert ax.images[0].get_clim()[1] == np.abs(weights).max() and ax.get_title() == "after batch 19"
