"""A call of each analysis that takes arrays, for the contract of all of them, and where its members are."""

import re

import jax
import numpy as np

from popsim.analysis import behaviour, dynamics, learning, neural_activity, similarity, statistics, trainables

KEY = jax.random.key(0)
RANDOM = np.random.default_rng(0)
ACTIVITY = np.cumsum(RANDOM.normal(size=(2, 6, 8, 5)), axis=2)
FIRST, SECOND = RANDOM.normal(size=(2, 20, 3))
LABELS, SIDES = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])
MEMBERS = RANDOM.exponential(size=(4, 5)) + 0.1
COURSES = (
    np.exp(-np.arange(12.0)[:, None] / np.array([2.0, 3.0, 4.0])) + 0.1 + 0.01 * RANDOM.normal(size=(12, 3))
)
WEIGHTS = RANDOM.normal(size=(3, 2, 4, 4))
POINTS = RANDOM.normal(size=(4, 3))
DISTANCES = np.linalg.norm(POINTS[:, None] - POINTS, axis=-1)
TIMES = 0.01 * np.arange(1, 31)
SPEED = np.exp(-((TIMES - 0.15) ** 2) / 0.002) + 0 * RANDOM.normal(size=(3, 1))
PATHS = np.stack([TIMES * 0.3, 0.01 * np.sin(20 * TIMES)], axis=-1) + 0 * RANDOM.normal(size=(3, 1, 1))
COHERENCE = np.tile([-0.5, -0.1, 0.1, 0.5], 10)
CHOICES = RANDOM.random(size=(2, 40)) < 1 / (1 + np.exp(-5 * COHERENCE))
STATES = RANDOM.normal(size=(2, 9, 3))

CALLS = {
    (similarity, "linear_cka"): ((FIRST, SECOND), {}),
    (similarity, "debiased_linear_cka"): ((FIRST, SECOND), {}),
    (similarity, "rbf_cka"): ((FIRST, SECOND), {}),
    (similarity, "procrustes_angle"): ((FIRST, SECOND), {}),
    (similarity, "procrustes_distance"): ((FIRST, SECOND), {}),
    (similarity, "canonical_correlations"): ((FIRST, SECOND), {}),
    (similarity, "cca_distance"): ((FIRST, SECOND), {}),
    (similarity, "svcca_distance"): ((FIRST, SECOND), {}),
    (similarity, "principal_patterns"): ((ACTIVITY[0, :, 0],), {}),
    (similarity, "representational_dissimilarities"): ((ACTIVITY[0, :, 0], LABELS), {}),
    (similarity, "compare_dissimilarities"): ((DISTANCES, 2 * DISTANCES[::-1, ::-1]), {}),
    (similarity, "matrix_permutation_test"): ((DISTANCES, DISTANCES[::-1, ::-1]), {"key": KEY}),
    (similarity, "cluster_members"): ((DISTANCES,), {}),
    (similarity, "member_map"): ((DISTANCES,), {}),
    (similarity, "group_separation"): ((DISTANCES, SIDES[:4]), {}),
    (similarity, "group_permutation_test"): ((DISTANCES, SIDES[:4]), {"key": KEY}),
    (neural_activity, "soft_normalize"): ((ACTIVITY,), {"constant": 0.1}),
    (neural_activity, "subtract_condition_mean"): ((ACTIVITY,), {}),
    (neural_activity, "average_by_factors"): ((ACTIVITY, {"a": LABELS, "b": SIDES}), {}),
    (neural_activity, "marginalize"): ((ACTIVITY, ["a"]), {}),
    (neural_activity, "principal_components"): ((ACTIVITY,), {}),
    (neural_activity, "participation_ratio"): ((ACTIVITY,), {}),
    (neural_activity, "n_components_for"): ((ACTIVITY, 0.9), {}),
    (neural_activity, "alignment_index"): ((ACTIVITY, ACTIVITY[:, ::2]), {"n_components": 2}),
    (neural_activity, "random_alignment"): (
        (ACTIVITY, ACTIVITY),
        {"n_components": 2, "n_draws": 3, "key": KEY},
    ),
    (neural_activity, "demixed_components"): ((ACTIVITY, {"a": LABELS}), {}),
    (neural_activity, "rotations"): ((ACTIVITY,), {"dt": 0.01, "n_components": 4}),
    (neural_activity, "tangling"): ((ACTIVITY,), {"dt": 0.01}),
    (neural_activity, "decode_condition"): ((ACTIVITY, SIDES), {"n_folds": 3, "key": KEY}),
    (neural_activity, "decode_condition_across_times"): ((ACTIVITY, SIDES), {"n_folds": 3, "key": KEY}),
    (neural_activity, "decode_shuffled_condition"): (
        (ACTIVITY, SIDES),
        {"n_folds": 3, "n_shuffles": 2, "key": KEY},
    ),
    (neural_activity, "decode_kinematics"): (
        (ACTIVITY, ACTIVITY[..., :2]),
        {"dt": 0.01, "n_folds": 3, "key": KEY},
    ),
    (neural_activity, "rayleigh_test"): ((MEMBERS,), {}),
    (neural_activity, "tuning_curves"): ((ACTIVITY[:, :, 0], LABELS * 1.0), {}),
    (neural_activity, "cosine_tuning"): ((ACTIVITY[:, :, 0], LABELS * 1.0), {}),
    (neural_activity, "preferred_direction_change"): ((MEMBERS, MEMBERS + 1), {"tuned": MEMBERS > 0.5}),
    (neural_activity, "mean_in_time_bins"): ((ACTIVITY, np.array([0.0, 0.04, 0.08])), {"dt": 0.01}),
    (neural_activity, "maximum_entropy_activity"): ((ACTIVITY,), {}),
    (neural_activity, "rotation_test"): (
        (ACTIVITY,),
        {"dt": 0.01, "n_components": 2, "n_draws": 2, "key": KEY},
    ),
    (statistics, "mean_interval"): ((MEMBERS,), {}),
    (statistics, "geometric_mean_interval"): ((np.exp(MEMBERS),), {}),
    (statistics, "interval_method"): ((MEMBERS,), {}),
    (statistics, "bootstrap_members"): ((MEMBERS,), {"n_resamples": 50, "key": KEY}),
    (statistics, "bootstrap_members_and_trials"): ((MEMBERS,), {"n_resamples": 50, "key": KEY}),
    (statistics, "paired_comparison"): ((MEMBERS[0], MEMBERS[1]), {"key": KEY}),
    (learning, "finite_members"): ((COURSES,), {}),
    (learning, "learning_curve"): ((COURSES,), {}),
    (learning, "moving_average"): ((COURSES, 3), {}),
    (learning, "time_to_criterion"): ((COURSES, np.arange(12), 0.5), {}),
    (learning, "fit_exponential"): ((COURSES, np.arange(12)), {}),
    (learning, "savings_in_time"): ((COURSES, 0.9 * COURSES, np.arange(12), 0.5), {"key": KEY}),
    (trainables, "change_singular_values"): ((WEIGHTS,), {"initial": WEIGHTS[0]}),
    (trainables, "effective_rank"): ((MEMBERS,), {}),
    (trainables, "participation_ratio_of_singular_values"): ((MEMBERS,), {}),
    (trainables, "low_rank_approximation"): ((WEIGHTS, 2), {}),
    (trainables, "recurrent_eigenvalues"): ((WEIGHTS,), {}),
    (trainables, "spectral_radius"): ((WEIGHTS,), {}),
    (trainables, "mode_strengths"): ((WEIGHTS, WEIGHTS[0, :, :, :2], WEIGHTS[0, :, :, 2:]), {}),
    (trainables, "final_modes"): ((WEIGHTS, 2), {}),
    (trainables, "member_alignment"): ((MEMBERS,), {}),
    (trainables, "input_output_change"): (
        (WEIGHTS[0],),
        {"readout": WEIGHTS[0, :, :2], "inputs": WEIGHTS[0, :, :, :3]},
    ),
    (dynamics, "mixtures_of_states"): ((STATES, 3), {"key": KEY}),
    (dynamics, "states_with_noise"): ((STATES, 3), {"key": KEY}),
    (dynamics, "modes"): ((WEIGHTS,), {}),
    (dynamics, "time_constants"): ((np.abs(MEMBERS),), {"dt": 0.01}),
    (dynamics, "frequencies"): ((MEMBERS,), {"dt": 0.01}),
    (dynamics, "slow_directions"): (
        (STATES[0], np.tile(np.diag([1.0, 0.5, 0.2]), (9, 1, 1))),
        {"dt": 0.01, "least_time_constant": 0.3},
    ),
    (behaviour, "peak_speed"): ((SPEED,), {"dt": 0.01}),
    (behaviour, "count_speed_peaks"): ((SPEED,), {}),
    (behaviour, "path_length"): ((PATHS,), {}),
    (behaviour, "curvature"): ((PATHS,), {}),
    (behaviour, "end_point_ellipse"): ((MEMBERS[:, :2],), {}),
    (behaviour, "choice_fractions"): ((COHERENCE, CHOICES), {}),
    (behaviour, "normalized_likelihood"): ((MEMBERS, np.ceil(9 * MEMBERS)), {}),
    (behaviour, "fit_psychometric"): ((COHERENCE[:, None], CHOICES), {}),
    (behaviour, "chronometric_curve"): ((COHERENCE[:4], MEMBERS[:3, :4]), {}),
    (behaviour, "chronometric_curves_by_outcome"): (
        (COHERENCE[:4], MEMBERS[:3, :4], MEMBERS[:3, :4] > 0),
        {},
    ),
    (behaviour, "reaction_time_quantiles"): ((COHERENCE[:4], MEMBERS[:3, :4], MEMBERS[:3, :4] > 0), {}),
    (behaviour, "conditional_accuracy"): ((MEMBERS, MEMBERS > 0), {}),
}

# Where members are, in the arrays that are given and in what is returned.
FIRST_AXIS = re.findall(
    r"\w+",
    """soft_normalize subtract_condition_mean average_by_factors marginalize principal_components rotations
    participation_ratio n_components_for alignment_index demixed_components tangling decode_condition
    decode_condition_across_times decode_kinematics rayleigh_test cosine_tuning tuning_curves
    preferred_direction_change mean_in_time_bins maximum_entropy_activity effective_rank
    low_rank_approximation
    participation_ratio_of_singular_values input_output_change modes peak_speed count_speed_peaks path_length
    curvature chronometric_curve chronometric_curves_by_outcome reaction_time_quantiles conditional_accuracy
    choice_fractions normalized_likelihood fit_psychometric""",
)
SECOND_AXIS = ["finite_members", "moving_average", "recurrent_eigenvalues", "spectral_radius"]
INVARIANT = ["mean_interval", "geometric_mean_interval", "learning_curve"]
# Conditions of trials come before the argument with an axis of members.
AFTER_CONDITIONS = [
    "choice_fractions",
    "fit_psychometric",
    "chronometric_curve",
    "chronometric_curves_by_outcome",
    "reaction_time_quantiles",
]
