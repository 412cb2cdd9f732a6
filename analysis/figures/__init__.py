"""Figures: every function takes and returns matplotlib axes. SI units in, readable units out."""

from popsim.analysis.figures.change_spectrum import draw_change_spectrum as draw_change_spectrum
from popsim.analysis.figures.channels import draw_channels as draw_channels
from popsim.analysis.figures.hand_paths import draw_hand_paths as draw_hand_paths
from popsim.analysis.figures.hidden_activity import draw_hidden_activity as draw_hidden_activity
from popsim.analysis.figures.learning_curves import draw_learning_curves as draw_learning_curves
from popsim.analysis.figures.loss_line import draw_loss_line as draw_loss_line
from popsim.analysis.figures.muscle_activations import draw_muscle_activations as draw_muscle_activations
from popsim.analysis.figures.preferred_directions import (
    draw_preferred_directions as draw_preferred_directions,
)
from popsim.analysis.figures.recurrent_eigenvalues import (
    draw_recurrent_eigenvalues as draw_recurrent_eigenvalues,
)
from popsim.analysis.figures.speed_profiles import draw_speed_profiles as draw_speed_profiles
from popsim.analysis.figures.style import direction_colors as direction_colors
from popsim.analysis.figures.style import figure_style as figure_style
from popsim.analysis.figures.style import save_figure as save_figure
from popsim.analysis.figures.task_trials import draw_task_trials as draw_task_trials
from popsim.analysis.figures.task_trials import task_trial_rows as task_trial_rows
from popsim.analysis.figures.weight_animation import animate_weight_matrix as animate_weight_matrix
from popsim.analysis.figures.weight_animation import save_animation as save_animation
from popsim.analysis.figures.weight_history import draw_weight_history as draw_weight_history
from popsim.analysis.figures.weight_matrix import draw_weight_matrix as draw_weight_matrix
