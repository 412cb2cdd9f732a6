"""The map of `network_distances.py`: networks of two kinds, near one another where they are alike."""

import numpy as np
from matplotlib.axes import Axes

from figures.flip_flop import COLORS

MARKERS = {"GRU": "o", "tanh": "s"}


def draw_network_map(
    ax: Axes, positions: np.ndarray, cells: np.ndarray, fraction: float, difference: float, p: float
) -> None:
    """A point for each network [network, 2], with the colour and the shape of its kind.

    **Arguments:**

    - `ax`: where to draw.
    - `positions`, `cells`: of the networks on the map, and their kinds.
    - `fraction`: of their spread that is on it.
    - `difference`: the mean distance between kinds less that within them.
    - `p`: of that difference.
    """
    for cell in COLORS:
        points = positions[cells == cell].T
        ax.plot(*points, MARKERS[cell], color=COLORS[cell], ms=4.5, mew=0.4, mec="white", label=cell)
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(x=0.15, y=0.45)
    ax.text(
        0.03,
        0.03,
        f"between - within: {difference:.2f}, p = {p:.3f}\n{100 * fraction:.0f} % of the spread is shown",
        fontsize=7,
        va="bottom",
        transform=ax.transAxes,
    )
    ax.legend(loc="upper right", handletextpad=0.1, borderaxespad=0)
    ax.set(xlabel="SVCCA map, dimension 1", ylabel="Dimension 2")
