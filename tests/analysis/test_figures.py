"""What is special about single figures; see `test_drawn_numbers` for the numbers of all."""

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from PIL import Image
from scipy.spatial.distance import pdist, squareform

from popsim.analysis.behaviour import (
    choice_fractions,
    end_point_ellipse,
    fit_psychometric,
    fit_psychometric_with_lapses,
)
from popsim.analysis.figures import (
    STYLE_SHEET,
    animate_weight_matrix,
    direction_colors,
    draw_adaptation_time_course,
    draw_area_activity,
    draw_area_weights,
    draw_channels,
    draw_cross_temporal_decoding,
    draw_dendrogram,
    draw_direction_key,
    draw_end_point_ellipses,
    draw_fixed_points,
    draw_hidden_activity,
    draw_jacobian_eigenvalues,
    draw_learning_curves,
    draw_loss_bands,
    draw_member_map,
    draw_psychometric_curves,
    draw_recurrent_eigenvalues,
    draw_rotation_plane,
    draw_similarity_matrix,
    draw_state_space,
    draw_time_constants,
    draw_tuning_curves,
    draw_two_state_time_course,
    draw_weight_matrix,
    figure_style,
    save_animation,
    save_figure,
)
from popsim.analysis.figures.style import COLORS
from popsim.analysis.learning import TwoStateParameters, simulate_two_states
from popsim.analysis.similarity import cluster_members
from popsim.networks import AreaRNN, Areas, Sparse


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


def test_the_key_of_directions_has_their_colours(ax):
    assert draw_direction_key(ax, label="target") is ax and ax.get_title() == "target"
    angles = np.array([np.arctan2(*line.get_xydata()[-1, ::-1]) for line in ax.lines])
    np.testing.assert_allclose(np.sort(np.mod(angles, 2 * np.pi)), np.arange(8) * np.pi / 4, atol=1e-9)
    np.testing.assert_allclose([line.get_color() for line in ax.lines], direction_colors(angles))


def test_inputs_are_drawn_when_they_come_and_outputs_at_the_end_of_a_step(ax):
    values = np.array([[0.0], [1.0], [2.0]])
    assert draw_channels(ax, values, dt=0.1, first_at=0.0) is ax
    draw_channels(ax, values, dt=0.1, targets=values)
    given, output, target = ax.lines
    np.testing.assert_allclose(given.get_xdata(), [0.0, 0.1, 0.2])
    np.testing.assert_allclose([output.get_xdata(), target.get_xdata()], [[0.1, 0.2, 0.3]] * 2)
    np.testing.assert_allclose(ax.get_xlim(), (0.0, 0.3))


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


def outline(band):
    return band.get_paths()[0].vertices


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
    curve, points = ax.lines[0], ax.lines[2]
    np.testing.assert_allclose(points.get_ydata(), shares.fraction[0])
    np.testing.assert_allclose(curve.get_ydata(), fit.share_right(curve.get_xdata()[:, None])[0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


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


DIRECTION = np.array([0.0, 2.0])
PATHS = np.random.default_rng(0).normal(size=(2, 5, 3))


def test_three_components_need_axes_in_3d(ax):
    figure, solid = plt.subplots(subplot_kw={"projection": "3d"})
    draw_state_space(solid, PATHS)
    np.testing.assert_allclose(np.stack(solid.lines[0].get_data_3d()), PATHS[0].T)
    assert solid.get_zlabel() == "component 3"
    plt.close(figure)


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


def test_decoding_across_times_has_the_tested_time_to_the_right(ax):
    accuracy = np.array([[1.0, 0.25], [0.5, 1.0]])
    assert draw_cross_temporal_decoding(ax, np.array([0.1, 0.3]), accuracy, chance=0.25) is ax
    (image,) = ax.images
    assert image.get_array()[0, 1] == 0.25 and image.origin == "lower" and image.get_clim() == (0.25, 1.0)
    np.testing.assert_allclose(image.get_extent(), [0, 0.4, 0, 0.4], atol=1e-12)
    assert "tested" in ax.get_xlabel() and "fitted" in ax.get_ylabel()


def test_units_are_ordered_by_the_time_of_their_peak(ax):
    hidden = np.array([[0.1, 1.0], [-2.0, 0.0]])
    assert draw_hidden_activity(ax, hidden, dt=0.1) is ax
    np.testing.assert_allclose(ax.images[0].get_array(), [[1.0, 0.0], [0.1, -2.0]])
    assert matplotlib.colormaps[ax.images[0].get_cmap().name](0.5)[0] > 0.9  # zero is white


def test_a_weight_matrix_has_symmetric_limits(ax):
    assert draw_weight_matrix(ax, np.array([[1.0, -3.0], [0.0, 2.0]])) is ax
    assert ax.images[0].get_clim() == (-3, 3) and ax.get_ylabel() == "to unit"
    draw_weight_matrix(ax, np.zeros((2, 2)), limit=0.5)
    assert ax.images[1].get_clim() == (-0.5, 0.5)


def test_an_animation_shows_each_batch_with_the_same_colours_and_is_written(ax, tmp_path, as_users_run):
    weights = np.random.default_rng(0).normal(size=(3, 2, 2))
    animation = animate_weight_matrix(ax, np.array([-1, 9, 19]), weights)
    path = save_animation(animation, tmp_path / "weights.gif", frames_per_second=5)
    with Image.open(path) as film:
        assert film.n_frames == 3
    np.testing.assert_array_equal(ax.images[0].get_array(), weights[-1])
    assert ax.images[0].get_clim()[1] == np.abs(weights).max() and ax.get_title() == "after batch 19"


def test_eigenvalues_are_where_they_are_with_the_unit_circle(ax):
    values = np.array([[1 + 1j, 1 - 1j], [0.5, -0.5]])
    assert draw_recurrent_eigenvalues(ax, np.array([-1, 99]), values) is ax
    np.testing.assert_allclose(ax.collections[0].get_offsets(), [[1, 1], [1, -1], [0.5, 0], [-0.5, 0]])
    assert ax.patches[0].radius == 1 and ax.get_aspect() == 1
    np.testing.assert_array_equal(np.ravel(ax.collections[0].get_array()), [1, 1, 100, 100])


AREAS = {"PMd": np.array([0, 1, 2]), "M1": np.array([3, 4])}


def test_units_are_sorted_by_peak_within_their_area(ax):
    hidden = np.zeros((6, 5))
    peaks = [4, -1, 2, 5, 0]
    for unit, time in enumerate(peaks):
        hidden[time, unit] = 1.0 - 2.0 * (unit == 2)
    assert draw_area_activity(ax, hidden, AREAS, dt=0.1) is ax
    shown = np.asarray(ax.images[0].get_array())
    assert np.argmax(np.abs(shown), axis=1).tolist() == [2, 4, 5, 0, 5]
    assert ax.images[0].get_extent() == pytest.approx((0, 0.6, 4.5, -0.5))
    assert [line.get_ydata()[0] for line in ax.lines] == [2.5]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["PMd", "M1"]
    np.testing.assert_allclose(ax.get_yticks(), [1, 3.5])
    assert ax.get_xlabel() == "time (s)" and ax.figure.axes[1].get_ylabel() == "activity"


def test_weights_are_in_blocks_in_the_order_of_areas(ax):
    weights = np.arange(25.0).reshape(5, 5)
    reversed_areas = {"M1": AREAS["M1"], "PMd": AREAS["PMd"]}
    assert draw_area_weights(ax, weights, reversed_areas, limit=30.0) is ax
    order = [3, 4, 0, 1, 2]
    np.testing.assert_array_equal(ax.images[0].get_array(), weights[np.ix_(order, order)])
    assert ax.images[0].get_clim() == (-30, 30)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["M1", "PMd"]
    assert len(ax.lines) == 2 and ax.get_xlabel() == "from area" and ax.get_ylabel() == "to area"


def test_the_groups_of_a_network_are_areas(ax):
    areas = Areas({"one": 6, "two": 4}, connections={("one", "two"): Sparse(0.5)}, excitatory=0.5)
    network = AreaRNN(areas, {"cue": 1}, 1, key=jax.random.key(0))
    groups = network.unit_groups()
    kinds = {name: units for name, units in groups.items() if "itory" in name or "atory" in name}
    draw_area_weights(ax, network.recurrent_weights, kinds)
    assert len(ax.lines) == 6 and not np.any(np.asarray(ax.images[0].get_array())[:6, 6:])
    with pytest.raises(ValueError, match="`areas` must not overlap, got 'one', 'one excitatory'"):
        draw_area_weights(ax, network.recurrent_weights, groups)


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


@pytest.fixture(params=[None, "3d"], ids=["2d", "3d"])
def flat_or_solid(request):
    figure = plt.figure()
    yield figure.add_subplot(projection=request.param)
    plt.close(figure)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_points_differ_in_shape_and_colour_by_their_unstable_directions(flat_or_solid):
    ax = flat_or_solid
    n_axes = 3 if ax.name == "3d" else 2
    points, n_unstable = np.arange(5.0 * n_axes).reshape(5, n_axes), np.array([0, 0, 1, 3, 7])
    paths = np.random.default_rng(0).normal(size=(4, 20, n_axes))
    assert draw_fixed_points(ax, points, n_unstable, paths=paths) is ax
    assert legend_of(ax) == ["stable", "1 unstable", "3 unstable", "4 or more unstable"]
    assert len(ax.lines) == 4 and len(ax.collections) == 4
    assert len({tuple(drawn.get_facecolor()[0]) for drawn in ax.collections}) == 4
    assert len({drawn.get_paths()[0].vertices.tobytes() for drawn in ax.collections}) == 4


def test_eigenvalues_are_where_they_are_beside_the_unit_circle(ax):
    eigenvalues = np.array([[0.5 + 0.1j, 0.5 - 0.1j], [1.5, -0.2]])
    assert draw_jacobian_eigenvalues(ax, eigenvalues, np.array([0, 1])) is ax
    assert ax.patches[0].radius == 1 and ax.patches[0].center == (0, 0)
    stable, saddle = (drawn.get_offsets() for drawn in ax.collections)
    np.testing.assert_allclose(stable, [[0.5, 0.1], [0.5, -0.1]])
    np.testing.assert_allclose(saddle, [[1.5, 0], [-0.2, 0]])
    assert legend_of(ax) == ["stable", "1 unstable"]
    assert ax.get_xlim()[1] > 1.5 and ax.get_ylim()[1] > 1


def test_four_and_more_unstable_directions_look_alike_and_are_called_so(ax):
    draw_jacobian_eigenvalues(ax, np.full((3, 2), 1.5 + 0j), np.array([3, 4, 9]))
    assert legend_of(ax) == ["3 unstable", "4 or more unstable"]
    ax.clear()
    draw_time_constants(ax, np.full((3, 2), 0.2), np.array([3, 4, 9]))
    assert legend_of(ax) == ["3 unstable", "4 or more unstable"]


def test_a_legend_of_many_kinds_reads_from_left_to_right(ax):
    draw_jacobian_eigenvalues(ax, np.full((5, 2), 0.5 + 0j), np.arange(5))
    ax.figure.canvas.draw()
    texts = ax.get_legend().get_texts()
    places = [(-round(text.get_window_extent().y0), text.get_window_extent().x0) for text in texts]
    read = [text for _, text in sorted(zip(places, legend_of(ax), strict=True))]
    assert read == ["stable", "1 unstable", "2 unstable", "3 unstable", "4 or more unstable"]


def test_time_constants_are_in_milliseconds_slowest_first_and_growth_is_marked(ax):
    tau = np.array([[0.01, 0.2, 0.05, 0.0], [np.inf, -0.1, 0.03, 0.02]])
    assert draw_time_constants(ax, tau, np.array([0, 1]), n_modes=3) is ax
    lines = [line for line in ax.lines if len(line.get_xdata())]
    np.testing.assert_allclose(lines[0].get_ydata(), [200, 50, 10])
    np.testing.assert_allclose(lines[2].get_ydata(), [100, 30, 20])
    (grows,) = (line for line in lines if line.get_marker() == "o" and len(line.get_xdata()))
    np.testing.assert_allclose(grows.get_xydata(), [[1, 100]])
    assert ax.get_yscale() == "log" and "ms" in ax.get_ylabel()
