"""Figures: every function takes and returns matplotlib axes. SI units in, readable units out."""

from popsim.analysis.figures.channels import draw_channels as draw_channels
from popsim.analysis.figures.fixed_points import draw_fixed_points as draw_fixed_points
from popsim.analysis.figures.hand_paths import draw_hand_paths as draw_hand_paths
from popsim.analysis.figures.hidden_activity import draw_hidden_activity as draw_hidden_activity
from popsim.analysis.figures.jacobian_eigenvalues import (
    draw_jacobian_eigenvalues as draw_jacobian_eigenvalues,
)
from popsim.analysis.figures.learning_curves import draw_learning_curves as draw_learning_curves
from popsim.analysis.figures.muscle_activations import draw_muscle_activations as draw_muscle_activations
from popsim.analysis.figures.preferred_directions import (
    draw_preferred_directions as draw_preferred_directions,
)
from popsim.analysis.figures.speed_profiles import draw_speed_profiles as draw_speed_profiles
from popsim.analysis.figures.style import direction_colors as direction_colors
from popsim.analysis.figures.style import figure_style as figure_style
from popsim.analysis.figures.style import save_figure as save_figure
from popsim.analysis.figures.task_trials import draw_task_trials as draw_task_trials
from popsim.analysis.figures.task_trials import task_trial_rows as task_trial_rows
from popsim.analysis.figures.time_constants import draw_time_constants as draw_time_constants
