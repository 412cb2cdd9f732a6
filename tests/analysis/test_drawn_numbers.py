"""Figures show the numbers that they are given, in readable units, with legends and labels that say so."""

import inspect
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sample_trials import few_trials
from scipy.spatial.distance import pdist, squareform
from small_tasks import Choose

from popsim.analysis import behaviour, figures
from popsim.analysis.learning import TwoStateParameters, learning_curve, simulate_two_states
from popsim.analysis.statistics import mean_interval

PAIR, TWICE = np.array([0.0, 2.0]), np.array([0, 9])
ENDS = np.full((1, 2), 0.1)
LOSS = np.array([[1.0, 4.0], [0.01, 0.04]])
SPEED = np.array([[[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [5.0, 6.0]]])
COURSE = np.array([[-1.0, 1.0], [1.0, 3.0]])
MEMBERS = np.array([[0.0, 1.0, 4.0], [2.0, 3.0, 5.0], [1.0, 8.0, 0.0]])
T = mean_interval(MEMBERS)
EXPLAINED = np.array([[0.5, 0.25, 0.25], [0.7, 0.2, 0.1]])
ACCURACY = np.array([[0.2, 0.8], [0.4, 1.0]])
LEVELS, TIMES = np.array([0.1, 0.1, 0.5, 0.5]), np.array([[0.5, 0.7, 0.2, 0.4]] * 2)
OUTCOMES = np.array([[True, False, True, True]] * 2)
CHRONOMETRIC = behaviour.chronometric_curve(LEVELS, TIMES)
BY_OUTCOME = behaviour.chronometric_curves_by_outcome(LEVELS, TIMES, OUTCOMES)
BINNED = behaviour.conditional_accuracy(
    np.array([0.1, 0.3, 0.5, 0.7]), np.array([True] * 3 + [False]), n_bins=2
)
CURVE = learning_curve(np.exp(np.array([[1.0, 3.0], [0.0, 2.0]])))
LEFT = np.array([[0.03, 0.02], [0.08, -0.01], [0.1, 0.0]])  # the target is along x, left is up
RANDOM = np.random.default_rng(0)
PLACES = np.array([[0.0, 0], [5, 5], [1, 0], [6, 5], [0, 1]])
DISTANCES, GROUPS = squareform(pdist(PLACES)), ["b", "a", "b", "a", "b"]
AREAS = {"PMd": np.array([0, 1, 2]), "M1": np.array([3, 4])}
PEAKS = np.eye(6)[[4, 1, 5, 3, 0]].T * [1, 1, -1, 1, 1]  # of each unit at another time
QUARTER = np.linspace(0, np.pi / 2, 50)
CHOICES = np.tile([-0.5, -0.1, 0.1, 0.5], 10), RANDOM.random((2, 40)) < np.tile([0.1, 0.4, 0.6, 0.9], 10)
FRACTIONS, ERRORS = behaviour.choice_fractions(*CHOICES), 1e-3 * RANDOM.normal(size=(2, 4, 2))
LEARNER = TwoStateParameters(*(np.full(2, value) for value in (0.6, 0.2, 0.99, 0.02)))
CLAMPED = np.array([False, False, True, True])


class Shown(NamedTuple):
    """What a figure is given, and what its axes show.

    The points of lines and the places of scattered points; the lowest and the highest end of bands and bars;
    labels, titles and scales; an image, and the numbers of its darkest colours; the axis of ticks, their
    labels and their places.
    """

    given: tuple[Any, ...]
    options: dict[str, Any]
    lines: dict[int, Any] = {}
    bands: dict[int, tuple[float, float]] = {}
    legend: list[str] | None = None
    texts: dict[str, str] = {}
    points: dict[int, Any] = {}
    image: Any = None
    colors: tuple[float, float] | None = None
    ticks: tuple[str, list[str], Any] | None = None


SHOWN = {
    "draw_muscle_activations": Shown(
        (np.array([[0.0, 0.1], [0.2, 0.3], [0.4, 0.5]]),),
        {"dt": 0.01, "names": ["biceps", "triceps"]},
        {1: [[0.01, 0.1], [0.02, 0.3], [0.03, 0.5]]},
        legend=["biceps", "triceps"],
    ),
    "draw_preferred_directions": Shown(
        (np.array([[0.0, np.pi / 2], [np.pi, 0.0]]), np.array([[1.0, 2.0], [0.5, 0.1]])),
        {},
        {0: [[0, 0], [1, 0]], 1: [[0, 0], [-0.5, 0]], 2: [[0, 0], [0, 2]], 3: [[0, 0], [0.1, 0]]},
        legend=["muscle 0", "muscle 1"],
    ),
    "draw_hand_paths": Shown(
        (np.full((2, 1, 1, 2), 0.1), 0 * ENDS, ENDS),
        {},
        {0: [[0, 0], [10, 10]], 2: [[0, 0]]},
        texts={"xlabel": "x (cm)"},
    ),
    "draw_path_deviation": Shown(
        (LEFT, np.zeros(2), np.array([0.1, 0.0])),
        {},
        {0: [[0, 0], [0, 10]], 1: [[0, 0], [-2, 3], [1, 8], [0, 10]], 2: [[0, 3], [-2, 3]]},
    ),
    "draw_speed_profiles": Shown((SPEED,), {"dt": 0.01}, {1: [[0.01, 4], [0.02, 5]]}, {1: (3, 6)}),
    "draw_mean_speed": Shown(
        (SPEED,), {"dt": 0.01, "label": "one", "color": "C0"}, {0: [[0.01, 3], [0.02, 4]]}, {0: (2, 5)}
    ),
    "draw_channels": Shown(  # outputs are those at the end of a step
        (PAIR[:, None],),
        {"dt": 0.1, "targets": PAIR[:, None]},
        {0: [[0.1, 0], [0.2, 2]], 1: [[0.1, 0], [0.2, 2]]},
    ),
    "draw_channels ": Shown(  # inputs are there from the start of a step
        (PAIR[:, None],), {"dt": 0.1, "first_at": 0.0}, {0: [[0, 0], [0.1, 2]]}
    ),
    "draw_learning_curves": Shown(
        (np.arange(2), LOSS),
        {},
        {0: [[1, 2], [2, 0.02]], 1: [[1, 1], [2, 0.01]]},
        texts={"yscale": "log", "xlabel": "training batch"},
    ),
    "draw_loss_bands": Shown(
        (np.arange(2), np.column_stack([LOSS, [9.0, np.nan]])),
        {"label": "one", "color": "C0"},
        {0: [[1, 2.0], [2, 0.02]]},
        {0: (0.01, 4.0)},
        texts={"yscale": "log"},
    ),
    "draw_learning_bands": Shown(
        (TWICE, CURVE),
        {},
        {0: [[1, np.exp(2)], [10, np.exp(1)]]},
        {0: (CURVE.low.min(), CURVE.high.max())},
        ["training, 2 members"],
        {"yscale": "log", "xscale": "log"},
    ),
    "draw_adaptation_time_course": Shown(  # Student's t of one degree of freedom; the error is one
        (np.array([0, 5]), COURSE), {"label": "field"}, {1: [[1, 0], [6, 2]]}, {0: (-12.706, 2 + 12.706)}
    ),
    "draw_ensemble_band": Shown(
        (np.arange(3.0), MEMBERS),
        {"label": "error"},
        {0: np.stack([np.arange(3), T.estimate], axis=1)},
        {0: (T.low.min(), T.high.max())},
        ["error, 95 % interval (n = 3)"],
    ),
    "draw_paired_members": Shown(
        (MEMBERS[:, :2],),
        {"names": ["before", "after"], "label": "error (mm)"},
        {0: [[0, 0], [1, 1]], 3: [[0.12, 1], [1.12, 4]]},
        {0: (T.low[:2].min(), T.high[:2].max())},
        texts={"ylabel": "error (mm)"},
    ),
    "draw_member_values": Shown(
        ([np.array([1.0, 3.0]), np.array([np.nan, 5.0]), np.zeros(0)],),
        {"names": ["a", "b", "c"], "label": "error (mm)"},
        {1: [[2, -0.32], [2, 0.32]], 2: [[5, 1]]},
        texts={"xlabel": "error (mm)"},
    ),
    "draw_state_space": Shown(
        (np.arange(20.0).reshape(2, 5, 2),),
        {"direction": PAIR, "explained": np.array([0.5, 0.25])},
        {3: np.arange(10.0, 20).reshape(5, 2), 4: [[10, 11]], 5: [[18, 19]]},
        legend=["first step", "last step", *(f"direction {angle}°" for angle in (0, 90, 180, 270))],
        texts={"xlabel": "component 1 (50 %)", "ylabel": "component 2 (25 %)"},
    ),
    "draw_demixed_component": Shown(
        (COURSE,),
        {"dt": 0.1, "direction": PAIR, "part": "direction", "explained": 0.4},
        {0: [[0.1, -1], [0.2, 1]]},
        texts={"title": "direction, 40.0 % of variance"},
    ),
    "draw_explained_variance": Shown(  # a deviation of n - 1
        (EXPLAINED,),
        {},
        {0: [[1, 50], [2, 75], [3, 100]], -1: [[1, 60], [2, 82.5], [3, 100]]},
        {0: (60 - 10 * 2**0.5, 100)},
    ),
    "draw_decoding": Shown(
        (np.array([0.1, 0.2]), ACCURACY),
        {"chance": 0.25, "shuffled": np.full((3, 2, 2), 0.25)},
        {1: [[0.1, 0.2], [0.2, 0.8]], -1: [[0.1, 0.3], [0.2, 0.9]]},
        {0: (0.25, 0.25), 1: (0.3 - 0.1 * 2**0.5, 0.9 + 0.1 * 2**0.5)},
    ),
    "draw_tangling": Shown(
        (np.array([[[1.0, 2.0]]]), np.array([[[10.0, 20.0]]])),
        {"reference_name": "muscles"},
        {1: [[1, 10], [2, 20]]},
        texts={"xlabel": "tangling of the muscles (1/s²)"},
    ),
    "draw_chronometric_curves": Shown(
        (CHRONOMETRIC,), {}, {0: [[0.1, 600], [0.5, 300]]}, {0: (200, 700)}, ["member 0", "member 1"]
    ),
    "draw_chronometric_curves_by_outcome": Shown(
        (BY_OUTCOME,),
        {"names": ["a", "b"]},
        {0: [[0.1, 500], [0.5, 300]], 3: [[0.1, 700], [0.5, np.nan]]},
        legend=["errors", "a", "b"],
    ),
    "draw_conditional_accuracy": Shown(
        (BINNED,), {}, {0: [[200, 1.0], [600, 0.5]]}, {0: (0.5 - 0.125**0.5, 1.0)}
    ),
    "draw_weight_history": Shown(
        (np.array([-1, 9, 99]), np.array([[0.0, 0, np.nan], [1, 2, np.nan], [2, 4, np.nan]])),
        {"label": "recurrent"},
        {0: [[10, 1.5], [100, 3]]},
        {0: (1, 4)},
        texts={"xscale": "log"},
    ),
    "draw_change_spectrum": Shown(
        (np.array([[2.0, 1.0], [3.0, 0.0]]), np.ones((4, 2))),
        {},
        {0: [[1, 0.5], [2, 0.5]], 1: [[1, 0.8], [2, 0.2]], 2: [[1, 1], [2, 0]]},
        legend=["Gaussian matrices, same shape", "members"],
    ),
    "draw_loss_line": Shown(
        (np.array([0.0, 1.0]), np.array([[1.0, 2.0]] * 2)), {}, {1: [[0, 2], [1, 2]]}, texts={"yscale": "log"}
    ),
    "draw_hidden_activity": Shown(
        (np.array([[0.1, 1.0], [-2.0, 0.0]]),), {"dt": 0.1}, image=[[1.0, 0.0], [0.1, -2.0]]
    ),
    "draw_raster": Shown((np.array([[0, 1], [1, 0], [0, 1.0]]),), {"dt": 0.1}, texts={"ylabel": "unit"}),
    "draw_weight_matrix": Shown(
        (np.array([[1.0, -3.0], [0.0, 2.0]]),),
        {},
        image=[[1.0, -3.0], [0.0, 2.0]],
        colors=(-3, 3),
        texts={"ylabel": "to unit"},
    ),
    "draw_area_activity": Shown(
        (PEAKS, AREAS),
        {"dt": 0.1},
        {0: [[0, 2.5], [1, 2.5]]},
        image=PEAKS[:, [1, 0, 2, 4, 3]].T,
        ticks=("y", ["PMd", "M1"], [1, 3.5]),
        texts={"xlabel": "time (s)"},
    ),
    "draw_area_weights": Shown(
        (np.arange(25.0).reshape(5, 5), {"M1": AREAS["M1"], "PMd": AREAS["PMd"]}),
        {"limit": 30.0},
        image=np.arange(25.0).reshape(5, 5)[np.ix_([3, 4, 0, 1, 2], [3, 4, 0, 1, 2])],
        colors=(-30, 30),
        ticks=("x", ["M1", "PMd"], [0.5, 3.0]),
        texts={"xlabel": "from area", "ylabel": "to area"},
    ),
    "draw_similarity_matrix": Shown(
        (DISTANCES,),
        {"groups": GROUPS},
        image=DISTANCES[np.ix_([1, 3, 0, 2, 4], [1, 3, 0, 2, 4])],
        ticks=("x", ["a", "b"], [0.5, 3.0]),
    ),
    "draw_similarity_matrix ": Shown(
        (DISTANCES,),
        {"order": np.array([4, 2, 0, 3, 1])},
        image=DISTANCES[np.ix_([4, 2, 0, 3, 1], [4, 2, 0, 3, 1])],
        ticks=("y", ["4", "2", "0", "3", "1"], range(5)),
    ),
    "draw_cross_temporal_decoding": Shown(
        (np.array([0.1, 0.3]), np.array([[1.0, 0.25], [0.5, 1.0]])),
        {"chance": 0.25},
        image=[[1.0, 0.25], [0.5, 1.0]],
        colors=(0.25, 1.0),
        texts={"xlabel": "tested at (s)", "ylabel": "fitted at (s)"},
    ),
    "draw_jacobian_eigenvalues": Shown(
        (np.array([[0.5 + 0.1j, 0.5 - 0.1j], [1.5, -0.2]]), np.array([0, 1])),
        {},
        points={0: [[0.5, 0.1], [0.5, -0.1]], 1: [[1.5, 0], [-0.2, 0]]},
        legend=["stable", "1 unstable"],
    ),
    "draw_fixed_points": Shown(
        (np.arange(10.0).reshape(5, 2), np.array([0, 0, 1, 3, 7])),
        {"paths": np.ones((4, 20, 2))},
        {0: np.ones((20, 2))},
        points={0: [[0, 1], [2, 3]], 1: [[4, 5]], 2: [[6, 7]], 3: [[8, 9]]},
        legend=["stable", "1 unstable", "3 unstable", "4 or more unstable"],
    ),
    "draw_recurrent_eigenvalues": Shown(
        (np.array([-1, 99]), np.array([[1 + 1j, 1 - 1j], [0.5, -0.5]])),
        {},
        points={0: [[1, 1], [1, -1], [0.5, 0], [-0.5, 0]]},
    ),
    "draw_time_constants": Shown(
        (np.array([[0.01, 0.2, 0.05, 0.0], [np.inf, -0.1, 0.03, 0.02]]), np.array([0, 1])),
        {"n_modes": 3},
        {0: [[1, 200], [2, 50], [3, 10]], 3: [[1, 100], [2, 30], [3, 20]], 5: [[1, 100]]},
        legend=["stable", "1 unstable", "grows"],
        texts={"yscale": "log", "ylabel": "time constant (ms)"},
    ),
    "draw_tuning_curves": Shown(
        (np.array([-np.pi / 2, 0.0, np.pi / 2]), np.array([[1.0], [3.0], [1.0]]), np.full((3, 1), 0.5)),
        {"names": ["deltoid"]},
        {0: [[-90, 1], [0, 3], [90, 1]]},
        {0: (0.5, 3.5)},
    ),
    "draw_rotation_plane": Shown(
        (np.stack([np.cos(QUARTER), np.sin(QUARTER)], axis=1)[None],),
        {"frequency": 1.234},
        {2: [[0, 1]]},
        texts={"title": "1.2 Hz"},
    ),
    "draw_member_map": Shown(
        (PLACES,),
        {"groups": GROUPS, "fraction": 0.756},
        {0: PLACES[[1, 3]], 1: PLACES[[0, 2, 4]]},
        legend=["a", "b"],
        texts={"title": "the map shows 76 % of the spread"},
    ),
    "draw_genealogy": Shown((np.arange(1, 4), np.tile([0, 0, 2], (3, 1))), {"best": 1}),
    "draw_discovered_schedules": Shown(
        (np.arange(1, 4), 1 + MEMBERS, np.tile([0, 0, 2], (3, 1))), {"label": "rate"}
    ),
    "draw_setting_map": Shown(
        (MEMBERS[:, :2],),
        {"rows": list("abc"), "columns": list("ab"), "axes": ("one", "other"), "label": "m"},
    ),
    "draw_setting_scores": Shown((list(MEMBERS),), {"names": list("abc"), "axis": "one", "label": "m"}),
    "draw_psychometric_curves": Shown(
        (FRACTIONS, behaviour.fit_psychometric(CHOICES[0][:, None], CHOICES[1])),
        {"names": ["a", "b"]},
        {2: np.stack([FRACTIONS.coherence, FRACTIONS.fraction[0]], axis=1)},
        legend=["a", "b"],
    ),
    "draw_phase_portrait": Shown(
        (np.linspace(-1, 1, 4), np.linspace(0, 1, 5), RANDOM.normal(size=(5, 4, 2))),
        {"points": PLACES},
        {-1: PLACES},
    ),
    "draw_end_point_ellipses": Shown((ERRORS, np.arange(2.0)), {}, {0: 1000 * ERRORS[0]}),
    "draw_direction_key": Shown((), {"label": "target"}, texts={"title": "target"}),
    "draw_dendrogram": Shown((np.array([[0, 1, 1, 2], [2, 3, 2, 3]], float),), {}),
    "draw_body": Shown(
        (figures.BodyMotion(0.1, RANDOM.random((4, 3, 2)), target=RANDOM.random((4, 2))),), {}
    ),
    "draw_two_state_time_course": Shown(
        (np.zeros((4, 2)), simulate_two_states(LEARNER, np.ones(4), CLAMPED), np.ones(4), CLAMPED), {}
    ),
}


def places_of(ax):
    """All that is drawn at places of the axes, (place, axis); a line of reference across them is not."""
    found = [line.get_xydata() for line in ax.lines if line.get_transform() == ax.transData]
    found += [marks.get_datalim(ax.transData).get_points() for marks in ax.collections]
    found += [np.reshape(image.get_extent(), (2, 2)).T for image in ax.images]
    filled = [np.ma.filled(np.ma.asarray(each, float), np.nan).reshape(-1, 2) for each in found]
    points = np.concatenate(filled)
    is_log = np.array([ax.get_xscale(), ax.get_yscale()]) == "log"
    return points[np.all(np.isfinite(points) & ~(is_log & (points <= 0)), axis=1)]


def assert_all_is_shown(ax):
    low, high = np.sort([ax.get_xlim(), ax.get_ylim()], axis=1).T
    points, room = places_of(ax), 1e-9 * (high - low)
    assert len(points) and (points >= low - room).all() and (points <= high + room).all()


def test_every_figure_is_here():
    public = {
        name for name, each in vars(figures).items() if name.startswith("draw_") and inspect.isfunction(each)
    }
    assert public == {*map(str.strip, SHOWN), "draw_task_trials"}


def assert_numbers_are_shown(ax, shown):
    for index, points in shown.lines.items():
        np.testing.assert_allclose(ax.lines[index].get_xydata(), points, rtol=1e-6, atol=1e-9)
    for index, ends in shown.bands.items():
        corners = np.concatenate([path.vertices for path in ax.collections[index].get_paths()])[:, 1]
        np.testing.assert_allclose([np.nanmin(corners), np.nanmax(corners)], ends, rtol=1e-4)
    for index, points in shown.points.items():
        np.testing.assert_allclose(ax.collections[index].get_offsets(), points, atol=1e-9)
    if shown.image is not None:
        np.testing.assert_allclose(ax.images[0].get_array(), shown.image)
    if shown.colors is not None:
        assert ax.images[0].get_clim() == shown.colors
    if shown.ticks is not None:
        axis, labels, places = shown.ticks
        assert [text.get_text() for text in getattr(ax, f"get_{axis}ticklabels")()] == labels
        np.testing.assert_allclose(getattr(ax, f"get_{axis}ticks")(), places)
    if shown.legend is not None:
        assert [text.get_text() for text in ax.get_legend().get_texts()] == shown.legend
    for label, text in shown.texts.items():
        assert getattr(ax, f"get_{label}")() == text


@pytest.mark.parametrize("name", SHOWN)
def test_the_numbers_are_those_that_were_given_and_all_is_in_view(ax, name):
    """No limit of an axis hides what is drawn before or later, also into axes that show something else."""
    shown, draw = SHOWN[name], getattr(figures, name.strip())
    assert draw(ax, *shown.given, **shown.options) is ax
    assert_numbers_are_shown(ax, shown)
    assert_all_is_shown(ax)
    ax.plot([1, 100], [1, 150])  # by somebody else
    draw(ax, *shown.given, **shown.options)
    assert_all_is_shown(ax)
    ax.plot([1, 200], [1, 300])
    assert_all_is_shown(ax)


def test_trials_of_a_task_are_in_view():
    trials = few_trials(Choose())
    figure, axes = plt.subplots(len(figures.task_trial_rows(trials)), 3, squeeze=False)
    figures.draw_task_trials(axes, trials)
    for ax in axes.flat:
        assert_all_is_shown(ax)
    plt.close(figure)
