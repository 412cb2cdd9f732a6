"""A plane in which a population rotates."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.state_space import trial_colors


def draw_rotation_plane(
    ax: Axes,
    projections: Float[np.ndarray, "trial time 2"],
    *,
    direction: Float[np.ndarray, " trial"] | None = None,
    frequency: float | None = None,
) -> Axes:
    """The course of each trial through a plane of jPCA: from a ring to a triangle, which points onward.

    **Arguments:**

    - `ax`: where to draw.
    - `projections`: of one member and plane, such as `rotations(...).projections[0, :, :, 0]`.
    - `direction`: of each trial in rad, for its colour; None for grey.
    - `frequency`: of the rotation in Hz, for the title.
    """
    for trial, color in zip(projections, trial_colors(direction, len(projections)), strict=True):
        ax.plot(*trial.T, color=color, linewidth=1.0)
        ax.plot(*trial[:1].T, "o", color=color, markersize=3.5, markerfacecolor="white", zorder=3)
        onward = np.degrees(np.arctan2(*(trial[-1] - trial[-2])[::-1]))
        ax.plot(*trial[-1:].T, marker=(3, 0, onward - 90), color=color, markersize=6, zorder=3)
    ax.axhline(0, color="0.85", linewidth=0.6, zorder=0)
    ax.axvline(0, color="0.85", linewidth=0.6, zorder=0)
    ax.set(xlabel="first axis of the plane", ylabel="second axis", xticks=[], yticks=[])
    ax.set_aspect("equal", adjustable="datalim")
    if frequency is not None:
        ax.set_title(f"{frequency:.2g} Hz")
    return ax
