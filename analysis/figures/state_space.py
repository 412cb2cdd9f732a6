"""The course of a population through its state space."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import direction_colors


def draw_state_space(
    ax: Axes,
    projections: Float[np.ndarray, "trial time component"],
    *,
    direction: Float[np.ndarray, " trial"] | None = None,
    explained: Float[np.ndarray, " component"] | None = None,
) -> Axes:
    """A line for each trial through two or three components; a ring where it starts, a dot where it ends.

    **Arguments:**

    - `ax`: where to draw; for three components axes in 3D, as of
        `plt.subplots(subplot_kw={"projection": "3d"})`.
    - `projections`: of one member, such as `principal_components(hidden).projections[0, :, :, :2]`.
    - `direction`: of each trial in rad, for its colour; None for grey.
    - `explained`: the share of the variance of each component, for the labels of the axes.

    **Raises:** `ValueError` if there are not as many components as the axes have dimensions.
    """
    n_components = projections.shape[2]
    n_dimensions = 3 if ax.name == "3d" else 2
    if n_components != n_dimensions:
        raise ValueError(
            f"`projections` must have {n_dimensions} components, as `ax` has dimensions, got {n_components}."
        )
    colors = trial_colors(direction, projections.shape[0])
    for trial, color in zip(projections, colors, strict=True):
        ax.plot(*trial.T, color=color, linewidth=1.0)
        ax.plot(*trial[:1].T, "o", color=color, markersize=3.5, markerfacecolor="white", zorder=3)
        ax.plot(*trial[-1:].T, "o", color=color, markersize=3.5, zorder=3)
    for index, axis in enumerate("xyz"[:n_components]):
        share = "" if explained is None else f" ({100 * explained[index]:.0f} %)"
        ax.set(**{f"{axis}label": f"component {index + 1}{share}", f"{axis}ticks": []})
        if n_dimensions == 3:
            getattr(ax, f"{axis}axis").labelpad = -12  # next to its axis, where the numbers would be
    if n_dimensions == 2:
        ax.set_aspect("equal", adjustable="datalim")
    return ax


def trial_colors(
    direction: Float[np.ndarray, " trial"] | None, n_trials: int
) -> Float[np.ndarray, "trial 4"]:
    """The colour of each trial: that of its direction in rad, or grey."""
    if direction is None:
        return np.tile([0.3, 0.3, 0.3, 1.0], (n_trials, 1))
    if np.shape(direction) != (n_trials,):
        raise ValueError(f"`direction` must be of {n_trials} trials, got shape {np.shape(direction)}.")
    return direction_colors(direction)
