"""How far a path was from the straight line to its target."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.behaviour import maximum_perpendicular_deviation, perpendicular_deviation
from popsim.analysis.figures.style import reach

DEVIATION_COLOR = "#D55E00"


def draw_path_deviation(
    ax: Axes,
    position: Float[np.ndarray, "time 2"],
    start: Float[np.ndarray, "2"],
    target: Float[np.ndarray, "2"],
    *,
    color: str = "#0072B2",
) -> Axes:
    """A path of the hand with the straight line to its target, and between both the largest deviation.

    The start is at the origin of the axes, and the target is up: to the left is to the left.

    **Arguments:**

    - `ax`: where to draw; further paths may be drawn into the same.
    - `position`: of the hand in one trial, in m.
    - `start`, `target`: of the trial, in m.
    - `color`: of the path.
    """
    starts, targets, path = start[None], target[None], position[None]
    left = perpendicular_deviation(path, starts, targets)[0]
    largest = float(maximum_perpendicular_deviation(path, starts, targets)[0])
    way = target - start
    distance = float(np.linalg.norm(way))
    forward = (position - start) @ way / distance
    at = forward[np.argmax(np.abs(left))]
    ax.plot([0, 0], [0, 100 * distance], color="0.6", linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    ax.plot(np.append(0, -100 * left), np.append(0, 100 * forward), color=color, zorder=2)
    ax.plot([0, -100 * largest], [100 * at] * 2, color=DEVIATION_COLOR, linewidth=1.5, zorder=3)
    ax.annotate(
        f"{100 * largest:+.2g} cm",
        (-50 * largest, 100 * at),
        xytext=(0, 2),
        textcoords="offset points",
        color=DEVIATION_COLOR,
        ha="center",
        va="bottom",
        fontsize=7,
    )
    ax.plot(0, 0, "o", color="black", markersize=3)
    ax.plot(0, 100 * distance, "o", color="0.6", markersize=6, zorder=1)
    ax.set(xlabel="to the right of the line (cm)", ylabel="to the target (cm)", aspect="equal")
    reach(ax, x=_room(ax, 30 * distance))
    return ax


def _room(ax: Axes, least: float) -> tuple[float, float]:
    """Limits around zero that show all there is and are not narrower than `least` on each side."""
    farthest = max(least, *(1.2 * abs(x) for x in ax.dataLim.intervalx))
    return -farthest, farthest
