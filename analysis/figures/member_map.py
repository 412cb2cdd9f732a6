"""A map on which members that are alike lie near one another."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes

from popsim.analysis.figures.style import COLORS

GROUP_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw_member_map(
    ax: Axes,
    positions: Float[np.ndarray, "member two"],
    *,
    groups: Sequence[Any] | Shaped[np.ndarray, " member"] | None = None,
    share: float | None = None,
) -> Axes:
    """A point for each member, with the colour and the shape of its group; equal lengths on both axes.

    **Arguments:**

    - `ax`: where to draw.
    - `positions`: of the members, see `popsim.analysis.similarity.member_map`.
    - `groups`: a label of each member, in the legend; without it, points have the members' numbers.
    - `share`: of the spread that is on the map, said above it.

    **Raises:** `ValueError` if `groups` are not as many as members.
    """
    if groups is None:
        ax.plot(*positions.T, "o", color=COLORS[0], ms=4)
        for number, place in enumerate(positions):
            ax.annotate(str(number), place, xytext=(3, 3), textcoords="offset points", fontsize=7)
    else:
        names = np.asarray(groups)
        if len(names) != len(positions):
            raise ValueError(
                f"`groups` must be a label of each of {len(positions)} members, got {len(names)}."
            )
        for index, name in enumerate(np.unique(names)):
            ax.plot(
                *positions[names == name].T,
                GROUP_MARKERS[index % len(GROUP_MARKERS)],
                color=COLORS[index % len(COLORS)],
                ms=4.5,
                mew=0.4,
                mec="white",
                label=str(name),
            )
        ax.legend(handletextpad=0.1)
    if share is not None:
        ax.set_title(f"{100 * share:.0f} % of the spread")
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.15)
    ax.set(xlabel="first dimension of the map", ylabel="second dimension of the map")
    return ax
