"""A number for each member of several ensembles."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import COLORS, reach


def draw_member_values(
    ax: Axes, values: Sequence[Float[np.ndarray, " member"]], *, names: Sequence[str], label: str
) -> Axes:
    """A strip of points for each ensemble, one point a member, and a bar at their mean.

    Numbers that are not finite are left out.

    **Arguments:**

    - `ax`: where to draw.
    - `values`: for each ensemble the numbers of its members.
    - `names`: of the ensembles; the first is at the top.
    - `label`: what the numbers are, with their unit.

    **Raises:** `ValueError` if there are not as many names as ensembles.
    """
    if len(values) != len(names):
        raise ValueError(f"`names` must be {len(values)}, one for each ensemble, got {len(names)}.")
    for place, of_members in enumerate(values):
        color = COLORS[place % len(COLORS)]
        finite = of_members[np.isfinite(of_members)]
        if finite.size == 0:
            continue
        offsets = 0.18 * np.linspace(-1, 1, finite.size) if finite.size > 1 else np.zeros(1)
        ax.plot(finite, place + offsets, "o", color=color, markersize=3.5, alpha=0.7, markeredgewidth=0)
        ax.plot([finite.mean()] * 2, [place - 0.32, place + 0.32], color=color, linewidth=1.6)
    ax.set_yticks(range(len(names)), names)
    ax.yaxis.set_inverted(True)
    reach(ax, y=(-0.5, len(names) - 0.5))
    ax.set(xlabel=label)
    return ax
