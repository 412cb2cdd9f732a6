"""Where the hand went."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import direction_colors


def draw_hand_paths(
    ax: Axes,
    positions: Float[np.ndarray, "member trial time 2"],
    starts: Float[np.ndarray, "trial 2"],
    targets: Float[np.ndarray, "trial 2"],
    *,
    target_radius: float = 0.005,
) -> Axes:
    """Paths of the hand in the plane, coloured by the direction of the target; one line for each member.

    **Arguments:**

    - `ax`: where to draw.
    - `positions`: of the hand, in m.
    - `starts`, `targets`: of the trials, in m.
    - `target_radius`: how large the targets are drawn, in m.
    """
    from matplotlib.patches import Circle

    toward = targets - starts
    colors = direction_colors(np.arctan2(toward[:, 1], toward[:, 0]))
    for trial, color in enumerate(colors):
        ax.add_patch(
            Circle(tuple(100 * targets[trial]), 100 * target_radius, facecolor="0.88", edgecolor="0.6")
        )
        for path in positions[:, trial]:
            whole = 100 * np.concatenate([starts[trial][None], path])
            ax.plot(*whole.T, color=color, linewidth=0.8, solid_capstyle="round")
    ax.plot(*(100 * starts.T), "o", color="black", markersize=3)
    ax.set(xlabel="x (cm)", ylabel="y (cm)", aspect="equal")
    ax.margins(0.08)
    return ax
