"""Figures show the numbers that they are given, in readable units, with legends and labels that say so."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from popsim.analysis import behaviour, figures
from popsim.analysis.learning import learning_curve
from popsim.analysis.statistics import mean_interval

PAIR, TWICE = np.array([0.0, 2.0]), np.array([0, 9])
ENDS = np.full((1, 2), 0.1)
LOSS = np.array([[1.0, 4.0], [0.01, 0.04]])
SPEED = np.array([[[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [5.0, 6.0]]])
COURSE = np.array([[-1.0, 1.0], [1.0, 3.0]])
MEMBERS = np.array([[0.0, 1.0, 4.0], [2.0, 3.0, 5.0], [1.0, 8.0, 0.0]])
T, RANGE = mean_interval(MEMBERS), mean_interval(MEMBERS, method="range")
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


class Shown(NamedTuple):
    """What a figure is given, and what its axes show."""

    given: tuple[Any, ...]
    options: dict[str, Any]
    lines: dict[int, Any] = {}
    """The points of lines."""
    bands: dict[int, tuple[float, float]] = {}
    """The lowest and the highest end of bands and bars."""
    legend: list[str] | None = None
    texts: dict[str, str] = {}
    """Labels, titles and scales."""


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
    "draw_ensemble_band ": Shown(
        (np.arange(3.0), MEMBERS),
        {"label": "error", "method": "range"},
        bands={0: (0.0, 8.0)},
        legend=["error, range (n = 3)"],
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
}


def ends_of(marks):
    """The lowest and the highest place of a band, or of bars."""
    corners = np.concatenate([path.vertices for path in marks.get_paths()])[:, 1]
    return np.nanmin(corners), np.nanmax(corners)


@pytest.mark.parametrize("name", SHOWN)
def test_the_numbers_are_those_that_were_given(ax, name):
    shown = SHOWN[name]
    assert getattr(figures, name.strip())(ax, *shown.given, **shown.options) is ax
    for index, points in shown.lines.items():
        np.testing.assert_allclose(ax.lines[index].get_xydata(), points, rtol=1e-6, atol=1e-9)
    for index, ends in shown.bands.items():
        np.testing.assert_allclose(ends_of(ax.collections[index]), ends, rtol=1e-4)
    if shown.legend is not None:
        assert [text.get_text() for text in ax.get_legend().get_texts()] == shown.legend
    for label, text in shown.texts.items():
        assert getattr(ax, f"get_{label}")() == text
