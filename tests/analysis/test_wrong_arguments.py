"""One table of arguments that would give a wrong number, or none, without a word: each is named."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from analysis_calls import ACTIVITY, COURSES, DISTANCES, KEY, MEMBERS, PATHS, POINTS, SIDES, SPEED, WEIGHTS
from sample_trials import trials_with_event

import popsim
from popsim.analysis import (
    behaviour,
    dynamics,
    figures,
    learning,
    neural_activity,
    similarity,
    statistics,
    trainables,
    trial_times,
)

pytestmark = pytest.mark.usefixtures("as_users_run")  # shapes are not checked by their annotations
BATCH, ONES = np.arange(12), np.ones((2, 3))
SOURCE, TARGET = np.random.default_rng(0).normal(size=(2, 20, 4))
STARTS, TARGETS = np.zeros((3, 2)), np.ones((3, 30, 2))
SIX, SIX_GROUPS = np.linalg.norm(ACTIVITY[0, :, None, 0] - ACTIVITY[0, :, 0], axis=-1), [0, 0, 0, 1, 1, 1]
TERMS = xarray.DataArray(np.ones((5, 3)), dims=("member", "batch"))
START, AXES, GRID = np.zeros((2, 4, 5)), np.eye(5)[:2], np.arange(3.0)
HISTORY = {"w": np.zeros((3, 2, 4))}


class Scaled(eqx.Module):
    """h' = value h, of two members."""

    value: jax.Array = eqx.field(default_factory=lambda: jnp.ones(2))


def scaled(model, state):
    return model.value * state


def trials():
    """Three trials of thirty steps."""
    return trials_with_event([5] * 3, name="go", dt=0.01, n_steps=30)


def no_points():
    return dynamics.FixedPoints(*np.zeros((8, 0)), n_members=2)


def network():
    return popsim.make_ensemble(lambda key: popsim.networks.LeakyRNN(2, 5, 1, key=key), 2, key=KEY)


def find(starts=START, **inputs):
    return dynamics.find_fixed_points(network(), starts, inputs=inputs or None)


def plane(directions=AXES, x=GRID, *, dt=0.01, **options):
    return dynamics.phase_plane(network(), directions, x, GRID, dt=dt, **options)


def lyapunov(n_steps=20, **options):
    states, given = np.ones((2, 1, 1)), {"dt": 0.1} | options
    return dynamics.lyapunov_spectrum(Scaled(), states, n_steps, dynamics=scaled, **given)


def slow(n_neighbours=4, least_time_constant=0.3):
    jacobian, options = np.tile(np.eye(2), (9, 1, 1)), {"least_time_constant": least_time_constant}
    return dynamics.slow_directions(np.zeros((9, 2)), jacobian, dt=0.01, n_neighbours=n_neighbours, **options)


def kinematics(values=ACTIVITY, n_folds=3, lead=0.0, activity=ACTIVITY):
    options = {"dt": 0.01, "n_folds": n_folds, "lead": lead, "key": KEY}
    return neural_activity.decode_kinematics(activity, values, **options)


def communication(source=SOURCE, target=TARGET, **options):
    return neural_activity.communication_subspace(source, target, key=KEY, **options)


def demixed(n_components=3, **factors):
    return neural_activity.demixed_components(ACTIVITY, factors, n_components=n_components)


def distances(**arguments):
    return trainables.distance_travelled(HISTORY, **arguments)


WRONG = [
    ("n_components", lambda: neural_activity.principal_components(ACTIVITY, n_components=6)),
    ("constant", lambda: neural_activity.soft_normalize(0 * ACTIVITY, constant=0.0)),
    ("activity", lambda: neural_activity.tangling(0 * ACTIVITY, dt=0.01)),
    ("activity", lambda: neural_activity.n_components_for(0 * ACTIVITY + 1, 0.9)),
    ("activity", lambda: neural_activity.subtract_condition_mean(ACTIVITY[:, :1])),
    ("factors['a']", lambda: demixed(a=np.zeros(6))),
    ("factors", lambda: demixed(a=SIDES, b=np.array([0, 0, 0, 0, 0, 1]))),
    ("n_components", lambda: demixed(6, a=SIDES)),
    ("second", lambda: neural_activity.alignment_index(ACTIVITY, ACTIVITY[..., :4], n_components=2)),
    ("n_components", lambda: neural_activity.rotations(ACTIVITY, dt=0.01, n_components=3)),
    ("activity", lambda: neural_activity.rotations(0 * ACTIVITY + 1, dt=0.01, n_components=2)),
    ("dt", lambda: neural_activity.rotations(ACTIVITY, dt=0.0)),
    ("softening", lambda: neural_activity.tangling(ACTIVITY, dt=0.01, softening=0.0)),
    ("condition", lambda: neural_activity.decode_condition(ACTIVITY, np.zeros(6), n_folds=2, key=KEY)),
    ("condition", lambda: neural_activity.decode_condition(ACTIVITY, np.arange(6), n_folds=2, key=KEY)),
    ("condition", lambda: neural_activity.decode_condition(ACTIVITY, SIDES, n_folds=1, key=KEY)),
    ("condition", lambda: neural_activity.decode_condition(ACTIVITY, SIDES[:5], n_folds=2, key=KEY)),
    ("kinematics", lambda: kinematics(ACTIVITY[:, :5])),
    ("n_folds", lambda: kinematics(n_folds=7)),
    ("n_folds", lambda: kinematics(ACTIVITY[:, :2], n_folds=2, activity=ACTIVITY[:, :2])),
    ("lead", lambda: kinematics(lead=0.08)),
    ("lead", lambda: kinematics(lead=0.015)),
    ("target", lambda: communication(target=TARGET[:3])),
    ("target", lambda: communication(target=0 * TARGET)),
    ("source", lambda: communication(source=SOURCE[:, 0])),
    ("ridge", lambda: communication(ridge=-1.0)),
    ("direction", lambda: neural_activity.cosine_tuning(np.ones((3, 4)), np.array([0.0, 1.0, 1.0]))),
    ("direction", lambda: neural_activity.cosine_tuning(np.ones((3, 4)), np.arange(4.0))),
    ("edges", lambda: neural_activity.mean_in_time_bins(ACTIVITY, np.array([0.0, 0.005]), dt=0.01)),
    ("variance", lambda: neural_activity.cluster_units(-ONES, key=KEY)),
    ("variance", lambda: neural_activity.cluster_units(ONES, key=KEY)),
    ("activity['go']", lambda: neural_activity.task_variance({"go": ACTIVITY[:, :1]})),
    ("values", lambda: statistics.mean_interval(ONES[:1])),
    ("confidence", lambda: statistics.mean_interval(ONES, confidence=1.0)),
    ("method", lambda: statistics.mean_interval(ONES, method="95 %")),
    ("values", lambda: statistics.geometric_mean_interval(0 * ONES)),
    ("method", lambda: statistics.bootstrap_members(ONES, method="basic", key=KEY)),
    ("n_resamples", lambda: statistics.bootstrap_members(ONES, n_resamples=99, confidence=0.99, key=KEY)),
    ("values", lambda: statistics.bootstrap_members_and_trials(ONES[0], key=KEY)),
    ("values", lambda: statistics.long_table({"a": ONES, "b": ONES.T}, ("member", "trial"))),
    ("axes", lambda: statistics.long_table({"a": ONES}, ("member",))),
    ("axes", lambda: statistics.long_table({"member": ONES}, ("member", "trial"))),
    ("labels['c']", lambda: statistics.long_table({"a": ONES}, ("m", "t"), labels={"c": ("t", BATCH)})),
    ("group", lambda: statistics.fit_mixed_model("a ~ 1", {"a": ONES[0]})),
    ("loss", lambda: learning.learning_curve(TERMS)),
    ("values", lambda: learning.learning_curve(ONES[:, :1])),
    ("batch", lambda: learning.fit_exponential(COURSES, BATCH[::-1])),
    ("criterion", lambda: learning.time_to_criterion(COURSES, BATCH, np.nan)),
    ("n_rows", lambda: learning.moving_average(COURSES, 0)),
    ("adaptation", lambda: learning.fit_two_states(ONES, np.ones(3), np.zeros(3, bool))),
    ("fraction", lambda: behaviour.FractionOfPeak(1.0)),
    ("threshold", lambda: behaviour.movement_onset(SPEED, 0.05, dt=0.01)),
    ("speed", lambda: behaviour.reaction_time(SPEED[:2], trials(), "go", behaviour.FractionOfPeak())),
    ("hidden", lambda: behaviour.preparatory_activity(PATHS[:2], trials(), "go", duration=0.02)),
    ("duration", lambda: behaviour.preparatory_activity(PATHS, trials(), "go", duration=0.0)),
    ("targets", lambda: behaviour.maximum_perpendicular_deviation(PATHS, STARTS, TARGETS)),
    ("position", lambda: behaviour.curvature(np.swapaxes(PATHS, -1, -2))),
    ("times", lambda: behaviour.initial_direction_error(PATHS, STARTS, TARGETS[:, 0], ONES[0], dt=0.01)),
    ("end_points", lambda: behaviour.end_point_ellipse(np.ones((2, 2)))),
    ("baseline", lambda: behaviour.after_effect(ONES, ONES[:, :1])),
    ("is_correct", lambda: behaviour.conditional_accuracy(MEMBERS, MEMBERS)),
    ("times", lambda: behaviour.chronometric_curves_by_outcome(ONES[0], MEMBERS, MEMBERS > 0)),
    ("counts", lambda: behaviour.normalized_likelihood(np.ones(3), np.zeros(3))),
    ("coherences", lambda: behaviour.fit_psychometric(np.ones((4, 1)), np.ones(4, bool))),
    ("coherences", lambda: behaviour.fit_psychometric(np.eye(2)[[0, 1, 0, 1]], np.ones(4, bool))),
    ("values", lambda: trial_times.mask_outside_window(ONES, trials(), popsim.windows.WholeTrial())),
    ("before", lambda: trial_times.align_to_event(SPEED, trials(), "go", before=0.015, after=0.1)),
    ("first", lambda: similarity.linear_cka(0 * POINTS + 1, POINTS)),
    ("first", lambda: similarity.cca_distance(POINTS, POINTS)),
    ("first", lambda: similarity.debiased_linear_cka(POINTS[:3], POINTS[:3])),
    ("share_of_variance", lambda: similarity.svcca_distance(POINTS, POINTS, share_of_variance=0.0)),
    ("distances", lambda: similarity.group_separation(1 - SIX, SIX_GROUPS)),
    ("distances", lambda: similarity.group_separation(SIX + np.triu(SIX), SIX_GROUPS)),
    ("groups", lambda: similarity.group_separation(SIX, SIX_GROUPS[:5])),
    ("groups", lambda: similarity.group_separation(SIX, range(6))),
    ("second", lambda: similarity.matrix_permutation_test(SIX, 1.0 - np.eye(6), key=KEY)),
    ("distances", lambda: similarity.member_map(0 * SIX)),
    ("method", lambda: similarity.cluster_members(SIX, method="ward")),
    ("condition", lambda: similarity.representational_dissimilarities(SIX, np.arange(5))),
    ("first", lambda: similarity.compare_dissimilarities(np.triu(SIX), SIX)),
    ("weights", lambda: trainables.recurrent_eigenvalues(WEIGHTS[..., :3])),
    ("rank", lambda: trainables.low_rank_approximation(WEIGHTS, 5)),
    ("left", lambda: trainables.mode_strengths(WEIGHTS, WEIGHTS[0, 0, :3], WEIGHTS[0, 0])),
    ("groups['g']", lambda: distances(groups={"g": ["nothing"]})),
    ("initial", lambda: distances(initial={})),
    ("history", lambda: trainables.distance_from_start({})),
    ("history", lambda: trainables.distance_from_start({"a": np.zeros((3, 2)), "b": np.zeros((4, 2))})),
    ("jacobian", lambda: dynamics.modes(np.array([[1.0, 1.0], [0.0, 1.0]]))),
    ("dt", lambda: dynamics.time_constants(np.ones(1), dt=0.0)),
    ("n_neighbours", lambda: slow(n_neighbours=9)),
    ("states", lambda: dynamics.assign_basins(no_points(), np.ones((3, 3, 2)), within=1.0)),
    ("member", lambda: no_points().select_member(2)),
    ("starts", lambda: find(np.zeros((1, 4, 5)))),
    ("inputs", lambda: find(signal=np.zeros(3))),
    ("inputs['signal']", lambda: find(signal=np.zeros((3, 2)))),
    ("ensemble", lambda: dynamics.find_fixed_points(Scaled(), np.zeros((2, 4, 5)))),
    ("dynamics", lambda: dynamics.rollout(Scaled(), np.ones((2, 1, 3)), 5, dynamics=lambda m, h: h[:2])),
    ("states", lambda: dynamics.mixtures_of_states(ACTIVITY[0, 0], 5, key=KEY)),
    ("directions", lambda: plane(np.ones((2, 5)))),
    ("directions", lambda: plane(np.zeros((2, 5)))),
    ("origin", lambda: plane(origin=np.zeros((3, 5)))),
    ("dt", lambda: plane(dt=10.0)),
    ("n_steps", lambda: lyapunov(5)),
    ("n_exponents", lambda: lyapunov(n_exponents=2)),
    ("exponent", lambda: dynamics.kaplan_yorke_dimension(np.array([-1.0, 2.0]))),
]
UNITS = {"PMd": np.array([0, 1]), "M1": np.array([1, 2])}
WRONG_FIGURES = [
    ("direction", lambda ax: figures.draw_state_space(ax, ACTIVITY[0, ..., :2], direction=np.zeros(3))),
    ("projections", lambda ax: figures.draw_state_space(ax, ACTIVITY[0, ..., :3])),
    ("groups", lambda ax: figures.draw_similarity_matrix(ax, DISTANCES, groups=["a"])),
    ("order", lambda ax: figures.draw_similarity_matrix(ax, DISTANCES, order=np.array([0, 0, 1, 2]))),
    ("groups", lambda ax: figures.draw_member_map(ax, POINTS[:, :2], groups=["a"])),
    ("areas", lambda ax: figures.draw_area_weights(ax, np.eye(3), UNITS)),
    ("points", lambda ax: figures.draw_fixed_points(ax, POINTS, np.zeros(4, int))),
    ("values", lambda ax: figures.draw_adaptation_time_course(ax, BATCH, COURSES[:, :1], label="a")),
]


@pytest.mark.parametrize(("argument", "call"), WRONG, ids=[name for name, _ in WRONG])
def test_wrong_arguments_are_named(argument, call):
    with pytest.raises(ValueError, match=re.escape(f"`{argument}`")):
        call()


@pytest.mark.parametrize(("argument", "draw"), WRONG_FIGURES, ids=[name for name, _ in WRONG_FIGURES])
def test_wrong_arguments_of_figures_are_named(ax, argument, draw):
    with pytest.raises(ValueError, match=re.escape(f"`{argument}`")):
        draw(ax)
