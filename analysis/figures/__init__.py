"""Figures: every function takes and returns matplotlib axes. SI units in, readable units out."""

from popsim.analysis.figures.adaptation_course import draw_adaptation_course as draw_adaptation_course
from popsim.analysis.figures.change_spectrum import draw_change_spectrum as draw_change_spectrum
from popsim.analysis.figures.channels import draw_channels as draw_channels
from popsim.analysis.figures.chronometric_curves import draw_chronometric_curves as draw_chronometric_curves
from popsim.analysis.figures.cross_temporal_decoding import (
    draw_cross_temporal_decoding as draw_cross_temporal_decoding,
)
from popsim.analysis.figures.decoding import draw_decoding as draw_decoding
from popsim.analysis.figures.demixed_component import draw_demixed_component as draw_demixed_component
from popsim.analysis.figures.dendrogram import draw_dendrogram as draw_dendrogram
from popsim.analysis.figures.end_point_ellipses import draw_end_point_ellipses as draw_end_point_ellipses
from popsim.analysis.figures.ensemble_band import draw_ensemble_band as draw_ensemble_band
from popsim.analysis.figures.explained_variance import draw_explained_variance as draw_explained_variance
from popsim.analysis.figures.fixed_points import draw_fixed_points as draw_fixed_points
from popsim.analysis.figures.hand_paths import draw_hand_paths as draw_hand_paths
from popsim.analysis.figures.hidden_activity import draw_hidden_activity as draw_hidden_activity
from popsim.analysis.figures.jacobian_eigenvalues import (
    draw_jacobian_eigenvalues as draw_jacobian_eigenvalues,
)
from popsim.analysis.figures.learning_bands import draw_learning_bands as draw_learning_bands
from popsim.analysis.figures.learning_curves import draw_learning_curves as draw_learning_curves
from popsim.analysis.figures.loss_bands import draw_loss_bands as draw_loss_bands
from popsim.analysis.figures.loss_line import draw_loss_line as draw_loss_line
from popsim.analysis.figures.mean_speed import draw_mean_speed as draw_mean_speed
from popsim.analysis.figures.member_map import draw_member_map as draw_member_map
from popsim.analysis.figures.member_values import draw_member_values as draw_member_values
from popsim.analysis.figures.muscle_activations import draw_muscle_activations as draw_muscle_activations
from popsim.analysis.figures.paired_members import draw_paired_members as draw_paired_members
from popsim.analysis.figures.path_deviation import draw_path_deviation as draw_path_deviation
from popsim.analysis.figures.preferred_directions import (
    draw_preferred_directions as draw_preferred_directions,
)
from popsim.analysis.figures.psychometric_curves import draw_psychometric_curves as draw_psychometric_curves
from popsim.analysis.figures.recurrent_eigenvalues import (
    draw_recurrent_eigenvalues as draw_recurrent_eigenvalues,
)
from popsim.analysis.figures.rotation_plane import draw_rotation_plane as draw_rotation_plane
from popsim.analysis.figures.similarity_matrix import draw_similarity_matrix as draw_similarity_matrix
from popsim.analysis.figures.speed_profiles import draw_speed_profiles as draw_speed_profiles
from popsim.analysis.figures.state_space import draw_state_space as draw_state_space
from popsim.analysis.figures.style import STYLE_SHEET as STYLE_SHEET
from popsim.analysis.figures.style import direction_colors as direction_colors
from popsim.analysis.figures.style import figure_style as figure_style
from popsim.analysis.figures.style import save_figure as save_figure
from popsim.analysis.figures.tangling import draw_tangling as draw_tangling
from popsim.analysis.figures.task_trials import draw_task_trials as draw_task_trials
from popsim.analysis.figures.task_trials import task_trial_rows as task_trial_rows
from popsim.analysis.figures.time_constants import draw_time_constants as draw_time_constants
from popsim.analysis.figures.tuning_curves import draw_tuning_curves as draw_tuning_curves
from popsim.analysis.figures.two_state_course import draw_two_state_course as draw_two_state_course
from popsim.analysis.figures.weight_animation import animate_weight_matrix as animate_weight_matrix
from popsim.analysis.figures.weight_animation import save_animation as save_animation
from popsim.analysis.figures.weight_history import draw_weight_history as draw_weight_history
from popsim.analysis.figures.weight_matrix import draw_weight_matrix as draw_weight_matrix
