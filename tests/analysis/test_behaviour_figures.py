"""What the figures of behaviour and learning show is what they were given, in readable units."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from popsim.analysis.behaviour import (
    choice_fractions,
    chronometric_curve,
    chronometric_curves_by_outcome,
    conditional_accuracy,
    end_point_ellipse,
    fit_psychometric,
    fit_psychometric_with_lapses,
)
from popsim.analysis.figures import (
    draw_adaptation_time_course,
    draw_chronometric_curves,
    draw_chronometric_curves_by_outcome,
    draw_conditional_accuracy,
    draw_end_point_ellipses,
    draw_learning_bands,
    draw_path_deviation,
    draw_psychometric_curves,
    draw_two_state_time_course,
)
from popsim.analysis.learning import TwoStateParameters, learning_curve, simulate_two_states


def outline(band):
    return band.get_paths()[0].vertices


def test_learning_bands_are_around_the_mean(ax):
    curve = learning_curve(np.exp(np.array([[1.0, 3.0], [0.0, 2.0]])))
    assert draw_learning_bands(ax, np.array([0, 9]), curve) is ax
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[1, np.exp(2)], [10, np.exp(1)]])
    np.testing.assert_allclose(outline(ax.collections[0])[:, 1].max(), curve.high[0])
    assert ax.get_yscale() == ax.get_xscale() == "log"
    assert "2 members" in ax.get_legend().get_texts()[0].get_text()


def test_a_deviation_to_the_left_is_drawn_to_the_left(ax):
    path = np.array([[0.03, 0.02], [0.08, -0.01], [0.1, 0.0]])  # the target is along x, left is up
    assert draw_path_deviation(ax, path, np.zeros(2), np.array([0.1, 0.0])) is ax
    way, drawn, deviation, *_ = ax.lines
    np.testing.assert_allclose(way.get_xydata(), [[0, 0], [0, 10]])
    np.testing.assert_allclose(drawn.get_xydata(), [[0, 0], [-2, 3], [1, 8], [0, 10]], atol=1e-12)
    np.testing.assert_allclose(deviation.get_xydata(), [[0, 3], [-2, 3]], atol=1e-12)
    assert ax.texts[0].get_text() == "+2 cm"
    low, high = ax.get_xlim()
    assert low == -high and low < -2


def test_ellipses_go_around_their_end_points_in_millimetres(ax):
    errors = 1e-3 * np.random.default_rng(0).normal(size=(2, 30, 2)) * [3.0, 1.0]
    assert draw_end_point_ellipses(ax, errors, np.array([0.0, 1.0])) is ax
    points, ellipse = ax.lines[0].get_xydata(), ax.lines[1].get_xydata()
    np.testing.assert_allclose(points, 1000 * errors[0])
    found = end_point_ellipse(errors[0])
    away = ellipse / 1000 - found.center
    squared = np.sum(away @ np.linalg.inv(found.covariance) * away, axis=1)
    np.testing.assert_allclose(squared, 2 * 899 / (30 * 28) * 3.340385558)  # F of 2 and 28, at 0.95
    assert "mm" in ax.get_xlabel()


@pytest.mark.parametrize("fit_choices", [fit_psychometric, fit_psychometric_with_lapses])
def test_psychometric_curves_have_points_and_a_line_for_each_member(ax, fit_choices):
    rng = np.random.default_rng(0)
    coherence = rng.choice([-0.5, -0.1, 0.1, 0.5], size=400)
    chose_right = coherence + 0.3 * rng.normal(size=(2, 400)) > 0
    shares, fit = choice_fractions(coherence, chose_right), fit_choices(coherence[:, None], chose_right)
    assert draw_psychometric_curves(ax, shares, fit, names=["a", "b"]) is ax
    curve, points = ax.lines[0], ax.lines[1]
    np.testing.assert_allclose(points.get_ydata(), shares.fraction[0])
    np.testing.assert_allclose(curve.get_ydata(), fit.share_right(curve.get_xdata()[:, None])[0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


def test_chronometric_curves_are_in_milliseconds(ax):
    curve = chronometric_curve(np.array([0.1, 0.1, 0.5, 0.5]), np.array([[0.5, 0.7, 0.2, 0.4]] * 2))
    assert draw_chronometric_curves(ax, curve) is ax
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[0.1, 600], [0.5, 300]])
    assert "ms" in ax.get_ylabel() and len(ax.get_legend().get_texts()) == 2


def test_errors_are_drawn_open_beside_correct_responses(ax):
    times, is_correct = np.array([[0.5, 0.7, 0.2, 0.4]] * 2), np.array([[True, False, True, True]] * 2)
    curves = chronometric_curves_by_outcome(np.array([0.1, 0.1, 0.5, 0.5]), times, is_correct)
    assert draw_chronometric_curves_by_outcome(ax, curves, names=["a", "b"]) is ax
    by_member = ax.lines[0], ax.lines[1], ax.lines[2], ax.lines[3]
    for correct, error in (by_member[::2], by_member[1::2]):
        np.testing.assert_allclose(correct.get_xydata(), [[0.1, 500], [0.5, 300]])
        np.testing.assert_allclose(error.get_xydata(), [[0.1, 700], [0.5, np.nan]])
        assert correct.get_color() == error.get_color() != ax.lines[4].get_color()
        assert error.get_markerfacecolor() == "white" != correct.get_markerfacecolor()
    assert by_member[0].get_color() != by_member[1].get_color()
    assert sorted(text.get_text() for text in ax.get_legend().get_texts()) == ["a", "b", "errors"]


def test_conditional_accuracy_is_drawn_at_the_mean_time_of_a_bin(ax):
    accuracy = conditional_accuracy(np.array([0.1, 0.3, 0.5, 0.7]), np.array([True] * 3 + [False]), n_bins=2)
    assert draw_conditional_accuracy(ax, accuracy) is ax
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[200, 1.0], [600, 0.5]])
    (bars,) = ax.collections
    np.testing.assert_allclose(bars.get_segments()[1][:, 1], [0.5 - 0.125**0.5, 0.5 + 0.125**0.5])
    assert "ms" in ax.get_xlabel() and ax.get_ylim()[0] <= 0 and ax.get_ylim()[1] >= 1


def test_the_band_of_an_adaptation_course_is_of_the_mean_over_members(ax):
    values = np.array([[-1.0, 1.0], [1.0, 3.0]])
    assert draw_adaptation_time_course(ax, np.array([0, 5]), values, label="field") is ax
    mean = ax.lines[-1]
    np.testing.assert_allclose(mean.get_xydata(), [[1, 0], [6, 2]])  # batches from 1, as in learning curves
    reach = 12.706204736  # Student's t of one degree of freedom; the error is one
    np.testing.assert_allclose(outline(ax.collections[0])[:, 1].max(), 2 + reach, rtol=1e-6)
    draw_adaptation_time_course(ax, np.array([3, 9]), values, label="washout")
    assert ax.get_xlim() == (1.0, 10.0)
    with pytest.raises(ValueError, match="two members or more, got 1"):
        draw_adaptation_time_course(ax, np.array([0, 5]), values[:, :1], label="field")
    with pytest.raises(ValueError, match="`confidence` must be between 0 and 1"):
        draw_adaptation_time_course(ax, np.array([0, 5]), values, label="field", confidence=1.5)
    with pytest.raises(ValueError, match="`values` must be finite"):
        draw_adaptation_time_course(ax, np.array([0, 5]), np.where(values > 2, np.nan, values), label="field")


def test_two_courses_on_one_axes_have_two_colours(ax):
    values = np.array([[-1.0, 1.0], [1.0, 3.0]])
    for label in ("field", "washout"):
        draw_adaptation_time_course(ax, np.array([0, 5]), values, label=label)
    handles = ax.get_legend_handles_labels()[0]
    assert handles[0].get_color() != handles[1].get_color()
    for line, band in zip(handles, ax.collections, strict=True):
        np.testing.assert_allclose(band.get_facecolor()[0, :3], to_rgb(line.get_color()))


def test_a_two_state_course_shows_states_of_trials_and_shades_clamps(ax):
    field, is_clamp = np.repeat([1.0, 0.0], [6, 4]), np.repeat([False, True], [6, 4])
    learner = TwoStateParameters(*(np.full(2, value) for value in (0.6, 0.2, 0.99, 0.02)))
    course = simulate_two_states(learner, field, is_clamp)
    measured = course.adaptation[:-1] + np.array([0.1, -0.1])
    measured[3] = np.nan
    assert draw_two_state_time_course(ax, measured, course, field, is_clamp) is ax
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["sum"].get_ydata(), course.adaptation[:-1, 0])
    np.testing.assert_allclose(lines["fast"].get_xydata()[5], [6, course.fast[5, 0]])
    dots = lines["measured"].get_ydata()
    assert np.isnan(dots[3])
    np.testing.assert_allclose(np.delete(dots, 3), np.delete(course.adaptation[:-1, 0], 3))
    (shade,) = ax.patches
    assert (shade.get_x(), shade.get_width()) == (6.5, 4.0)
