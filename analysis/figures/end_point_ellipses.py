"""Where movements ended, and how they scatter."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.behaviour import end_point_ellipse
from popsim.analysis.figures.style import direction_colors


def draw_end_point_ellipses(
    ax: Axes,
    errors: Float[np.ndarray, "target trial 2"],
    directions: Float[np.ndarray, " target"],
    *,
    coverage: float = 0.95,
) -> Axes:
    """End points of movements to several targets around where the target was, with an ellipse for each.

    **Arguments:**

    - `ax`: where to draw.
    - `errors`: end points less their target, in m.
    - `directions`: of the targets, in rad; they say the colours.
    - `coverage`: the probability that the next end point is in its ellipse, see
        `popsim.analysis.behaviour.end_point_ellipse`.
    """
    found = end_point_ellipse(errors, coverage=coverage)
    around = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(around), np.sin(around)])
    for index, color in enumerate(direction_colors(directions)):
        ax.plot(*(1000 * errors[index].T), ".", color=color, markersize=2, alpha=0.5)
        turn = found.angle[index]
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        outline = rotation @ (found.semi_axes[index][:, None] * circle) + found.center[index][:, None]
        ax.plot(*(1000 * outline), color=color, linewidth=1.0)
    ax.plot(0, 0, "+", color="black", markersize=7)
    ax.set(xlabel="x from the target (mm)", ylabel="y from the target (mm)", aspect="equal")
    return ax
