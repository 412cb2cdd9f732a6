"""No limit of an axis hides what is drawn, also if it is drawn into axes that show something else already."""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sample_trials import few_trials
from short_form import every_nth
from small_tasks import Choose

from popsim.analysis import figures
from popsim.analysis.behaviour import (
    choice_fractions,
    chronometric_curve,
    chronometric_curves_by_outcome,
    conditional_accuracy,
    fit_psychometric,
)
from popsim.analysis.figures import BodyMotion
from popsim.analysis.learning import TwoStateParameters, learning_curve, simulate_two_states

LETTERS = list("abcdefgh")
COLOR = {"label": "one", "color": "C0"}


def noise(*shape):
    return np.random.default_rng(0).normal(size=shape)


def choices(spread):
    levels = spread * np.tile([-0.5, -0.1, 0.1, 0.5], 10)
    right = levels + 0.3 * spread * noise(2, 40) > 0
    return choice_fractions(levels, right), fit_psychometric(levels[:, None], right)


def two_states(size, n_trials):
    field, clamped = np.full(n_trials, float(size)), np.zeros(n_trials, bool)
    learner = TwoStateParameters(*(np.full(2, value) for value in (0.6, 0.2, 0.99, 0.02)))
    course = simulate_two_states(learner, field, clamped)
    return course.adaptation[:-1], course, field, clamped


def areas_of(n_units):
    return {"first": np.arange(n_units // 2), "second": np.arange(n_units // 2, n_units)}


# By function, what is given besides the axes, for a size of the numbers, and a number of points.
GIVEN = {
    "draw_adaptation_time_course": lambda s, n: ((np.arange(n), s * noise(n, 2)), {"label": "one"}),
    "draw_area_activity": lambda s, n: ((s * noise(n, n), areas_of(n)), {"dt": 0.1}),
    "draw_area_weights": lambda s, n: ((s * noise(n, n), areas_of(n)), {}),
    "draw_body": lambda s, n: (
        (BodyMotion(0.1, s * np.abs(noise(n, 3, 2)), target=s * np.abs(noise(n, 2))),),
        {},
    ),
    "draw_change_spectrum": lambda s, n: ((np.ones((2, n)) * s ** np.arange(n), np.ones((4, n))), {}),
    "draw_channels": lambda s, n: ((s * noise(n, 2),), {"dt": 0.1}),
    "draw_chronometric_curves": lambda s, n: (
        (chronometric_curve(s * np.tile([0.1, 0.1, 0.5, 0.5], n), s * np.abs(noise(2, 4 * n))),),
        {},
    ),
    "draw_chronometric_curves_by_outcome": lambda s, n: (
        (
            chronometric_curves_by_outcome(
                s * np.tile([0.1, 0.5], 4 * n), s * np.abs(noise(2, 8 * n)), noise(2, 8 * n) > -0.3
            ),
        ),
        {},
    ),
    "draw_conditional_accuracy": lambda s, n: (
        (conditional_accuracy(s * np.abs(noise(2, 4 * n)), noise(2, 4 * n) > 0, n_bins=n),),
        {},
    ),
    "draw_cross_temporal_decoding": lambda s, n: ((0.1 * np.arange(n), np.eye(n)), {"chance": 0.25}),
    "draw_decoding": lambda s, n: ((0.1 * np.arange(1, n + 1), s / 4 * np.abs(noise(2, n))), {"chance": 0.5}),
    "draw_demixed_component": lambda s, n: ((s * noise(2, n),), {"dt": 0.1, "direction": np.arange(2.0)}),
    "draw_dendrogram": lambda s, n: ((np.array([[0, 1, s, 2], [2, 3, 2 * s, 3]], float),), {}),
    "draw_end_point_ellipses": lambda s, n: ((s * noise(2, n, 2), np.arange(2.0)), {}),
    "draw_ensemble_band": lambda s, n: ((s * np.arange(n, dtype=float), s * noise(3, n)), {}),
    "draw_explained_variance": lambda s, n: ((np.full((2, n), 1 / n),), {}),
    "draw_fixed_points": lambda s, n: ((s * noise(n, 2), np.zeros(n, int)), {}),
    "draw_direction_key": lambda s, n: ((), {}),
    "draw_hand_paths": lambda s, n: (
        (s * noise(2, 1, n, 2), np.zeros((1, 2)), np.full((1, 2), float(s))),
        {},
    ),
    "draw_hidden_activity": lambda s, n: ((s * noise(n, n),), {"dt": 0.1}),
    "draw_jacobian_eigenvalues": lambda s, n: ((s * noise(n, 2) + 0j, np.zeros(n, int)), {}),
    "draw_learning_bands": lambda s, n: (
        (np.arange(n), learning_curve(np.exp(s * noise(n, 3)))),
        {},
    ),
    "draw_learning_curves": lambda s, n: ((np.arange(n), np.exp(s * noise(n, 3))), {}),
    "draw_loss_bands": lambda s, n: ((np.arange(n), np.exp(s * noise(n, 3))), COLOR),
    "draw_loss_line": lambda s, n: ((np.arange(n, dtype=float), s * np.abs(noise(n, 2))), {}),
    "draw_mean_speed": lambda s, n: ((s * np.abs(noise(2, 3, n)),), COLOR | {"dt": 0.1}),
    "draw_member_map": lambda s, n: ((s * noise(n, 2),), {}),
    "draw_member_values": lambda s, n: (
        (list(s * noise(n, 3)),),
        {"names": LETTERS[:n], "label": "m"},
    ),
    "draw_muscle_activations": lambda s, n: ((s * np.abs(noise(n, 2)),), {"dt": 0.1}),
    "draw_paired_members": lambda s, n: ((s * noise(3, n),), {"names": LETTERS[:n], "label": "m"}),
    "draw_path_deviation": lambda s, n: ((s * noise(n, 2), np.zeros(2), np.array([0.1, 0.0])), {}),
    "draw_phase_portrait": lambda s, n: (
        (s * np.linspace(-1, 1, n), s * np.linspace(0, 1, n + 1), noise(n + 1, n, 2)),
        {"points": s * noise(n, 2)},
    ),
    "draw_preferred_directions": lambda s, n: ((noise(2, n), s * np.abs(noise(2, n))), {}),
    "draw_psychometric_curves": lambda s, n: (choices(s / 4), {}),
    "draw_recurrent_eigenvalues": lambda s, n: ((np.arange(n), s * noise(n, 3) + 0j), {}),
    "draw_rotation_plane": lambda s, n: ((s * noise(2, n, 2),), {}),
    "draw_genealogy": lambda s, n: ((s * np.arange(1, n + 1), np.tile([0, 0, 2], (n, 1))), {"best": 1}),
    "draw_discovered_schedules": lambda s, n: (
        (s * np.arange(1, n + 1), s + np.abs(noise(n, 3)), np.tile([0, 0, 2], (n, 1))),
        {"label": "rate"},
    ),
    "draw_setting_map": lambda s, n: (
        (s * noise(n, 2),),
        {"rows": LETTERS[:n], "columns": LETTERS[:2], "axes": ("one", "other"), "label": "m"},
    ),
    "draw_setting_scores": lambda s, n: (
        (list(s * noise(n, 3)),),
        {"names": LETTERS[:n], "axis": "one", "label": "m"},
    ),
    "draw_similarity_matrix": lambda s, n: ((s * (1.0 - np.eye(n)),), {}),
    "draw_speed_profiles": lambda s, n: ((s * np.abs(noise(2, 3, n)),), {"dt": 0.1}),
    "draw_state_space": lambda s, n: ((s * noise(2, n, 2),), {}),
    "draw_tangling": lambda s, n: ((s * np.abs(noise(1, 2, n)), s * np.abs(noise(1, 2, n))), {}),
    "draw_time_constants": lambda s, n: ((s * np.abs(noise(n, 2)), np.zeros(n, int)), {}),
    "draw_tuning_curves": lambda s, n: ((np.linspace(-3, 3, n), s * noise(n, 2), s * np.ones((n, 2))), {}),
    "draw_two_state_time_course": lambda s, n: (two_states(s, n), {}),
    "draw_weight_history": lambda s, n: ((np.arange(n), s * np.abs(noise(n, 2))), {"label": "recurrent"}),
    "draw_weight_matrix": lambda s, n: ((s * noise(n, n),), {}),
}


def shown(ax):
    """What is in view, as the low and the high end of both axes."""
    return np.sort([ax.get_xlim(), ax.get_ylim()], axis=1)


def of_data(points, ax):
    """The ends of points, of those that are finite and that a logarithmic axis has."""
    points = np.ma.filled(np.ma.masked_invalid(np.asarray(points, float)), np.nan).reshape(-1, 2)
    scales = np.array([ax.get_xscale(), ax.get_yscale()])
    points = np.where((scales == "log") & (points <= 0), np.nan, points)
    points = points[np.isfinite(points).all(axis=1)]
    return [points.min(axis=0), points.max(axis=0)] if len(points) else []


def ends(ax):
    """The ends of all that is drawn at places of the axes; a line of reference across them is not."""
    found = []
    for line in ax.lines:
        if line.get_transform() == ax.transData:
            found += of_data(line.get_xydata(), ax)
    for marks in ax.collections:
        found += of_data(marks.get_datalim(ax.transData).get_points(), ax)
    for image in ax.images:
        left, right, bottom, top = image.get_extent()
        found += of_data([[left, bottom], [right, top]], ax)
    return np.array(found)


def assert_all_is_shown(ax):
    (x_low, x_high), (y_low, y_high) = shown(ax)
    points = ends(ax)
    room = 1e-9 * np.array([x_high - x_low, y_high - y_low])
    assert len(points) and (points.min(axis=0) >= [x_low, y_low] - room).all()
    assert (points.max(axis=0) <= [x_high, y_high] + room).all()


def test_every_figure_is_here():
    public = {
        name for name, each in vars(figures).items() if name.startswith("draw_") and inspect.isfunction(each)
    }
    assert public == {*GIVEN, "draw_task_trials"}


@pytest.mark.parametrize("order", [1, -1], ids=["larger", "smaller"])
@pytest.mark.parametrize("name", every_nth(GIVEN, 4))
def test_what_is_drawn_later_and_before_is_in_view(name, order):
    figure, ax = plt.subplots()
    for size, n_points in ((1, 4), (3, 8))[::order]:
        given, options = GIVEN[name](size, n_points)
        getattr(figures, name)(ax, *given, **options)
        assert_all_is_shown(ax)
    ax.plot([1, 100], [1, 50])  # by somebody else
    assert_all_is_shown(ax)
    plt.close(figure)


def test_trials_of_a_task_are_in_view():
    trials = few_trials(Choose())
    figure, axes = plt.subplots(len(figures.task_trial_rows(trials)), 3, squeeze=False)
    figures.draw_task_trials(axes, trials)
    for ax in axes.flat:
        assert_all_is_shown(ax)
    plt.close(figure)
