"""The eigenvalues of linearised dynamics, and the circle on which they neither grow nor decay."""

import numpy as np
from jaxtyping import Complex, Int
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from popsim.analysis.figures.fixed_points import KIND_COLORS, KIND_MARKERS, unstable_label
from popsim.analysis.figures.style import reach


def draw_jacobian_eigenvalues(
    ax: Axes,
    eigenvalues: Complex[np.ndarray, "point mode"],
    n_unstable: Int[np.ndarray, " point"],
) -> Axes:
    """All eigenvalues of the Jacobians at some points in the complex plane, with the unit circle.

    Modes within the circle decay, those outside it grow; the angle is how far a mode turns in a time step.

    **Arguments:**

    - `ax`: where to draw.
    - `eigenvalues`: of the Jacobian of one time step at each point, such as `FixedPoints.eigenvalues`.
    - `n_unstable`: how many unstable directions each point has; 4 and more look alike. Colours are those
        of `draw_fixed_points`.
    """
    ax.add_patch(Circle((0, 0), 1, fill=False, color="0.5", lw=0.7, zorder=0))
    ax.axhline(0, color="0.85", lw=0.5, zorder=0)
    shown = np.minimum(n_unstable, len(KIND_COLORS) - 1)
    for kind in np.unique(shown):
        own = eigenvalues[shown == kind].ravel()
        label = "stable points" if kind == 0 else unstable_label(kind)
        size = 12 if KIND_MARKERS[kind] == "*" else 5
        look = {"color": KIND_COLORS[kind], "marker": KIND_MARKERS[kind], "linewidths": 0, "alpha": 0.6}
        ax.scatter(np.real(own), np.imag(own), s=size, **look, label=label)
    ax.set_aspect("equal")
    farthest = 1.08 * max(1.0, float(np.abs(eigenvalues).max(initial=0)))
    reach(ax, x=(-farthest, farthest), y=(-farthest, farthest))
    ax.set(xlabel="real part of eigenvalue", ylabel="imaginary part")
    ax.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=2, handletextpad=0.2, columnspacing=1, borderaxespad=0
    )
    return ax
