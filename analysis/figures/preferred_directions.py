"""In which direction of movement each muscle, or unit, was most active."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach


def draw_preferred_directions(
    ax: Axes,
    preferred: Float[np.ndarray, "member muscle"],
    depth: Float[np.ndarray, "member muscle"],
    *,
    names: Sequence[str] | None = None,
) -> Axes:
    """A line for each muscle of each member into its preferred direction, as long as its tuning is deep.

    **Arguments:**

    - `ax`: where to draw; right and up are the directions 0 and pi / 2.
    - `preferred`, `depth`: in rad, and in the unit of the activity; see
        `popsim.analysis.population.cosine_tuning`.
    - `names`: of the muscles; by default they are numbered.
    """
    farthest = 1.1 * float(np.max(depth))
    x, y = depth * np.cos(preferred), depth * np.sin(preferred)
    for index in range(preferred.shape[1]):
        label = f"muscle {index}" if names is None else names[index]
        for member in range(preferred.shape[0]):
            ax.plot(
                [0, x[member, index]],
                [0, y[member, index]],
                color=f"C{index}",
                lw=0.8,
                marker="o",
                ms=2.5,
                markevery=[1],
                label=label if member == 0 else None,
            )
    ax.set_aspect("equal")
    reach(ax, x=(-1.4 * farthest, 1.4 * farthest), y=(-1.8 * farthest, farthest))  # room for the legend
    ax.locator_params(nbins=5)
    ax.set(xlabel="depth of tuning to the right", ylabel="depth of tuning away")
    ax.legend(fontsize=6, handlelength=1.0, columnspacing=1.0, loc="lower center", ncols=2)
    return ax
