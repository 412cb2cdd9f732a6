"""Activity of units over directions."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import COLORS, reach


def draw_tuning_curves(
    ax: Axes,
    direction: Float[np.ndarray, " direction"],
    mean: Float[np.ndarray, "direction unit"],
    deviation: Float[np.ndarray, "direction unit"],
    *,
    cosine: Float[np.ndarray, "3 unit"] | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """The mean activity of some units of a member over directions, with the standard deviation over trials.

    **Arguments:**

    - `ax`: where to draw.
    - `direction`: in rad.
    - `mean`, `deviation`: of the activity, as `popsim.analysis.population.tuning_curves` gives them.
    - `cosine`: baseline, depth and preferred direction (rad) of each unit, drawn as dotted cosines; None for
        lines from point to point.
    - `names`: of the units; by default they are numbered.
    """
    fine = np.linspace(-np.pi, np.pi, 181)
    for index in range(mean.shape[1]):
        color = COLORS[index % len(COLORS)]
        label = f"unit {index}" if names is None else names[index]
        points = (np.degrees(direction), mean[:, index], deviation[:, index])
        ax.errorbar(*points, fmt="o" if cosine is not None else "o-", color=color, markersize=3, label=label)
        if cosine is not None:
            baseline, depth, preferred = cosine[:, index]
            fitted = baseline + depth * np.cos(fine - preferred)
            ax.plot(np.degrees(fine), fitted, ":", color=color, linewidth=1.0)
    ax.set(xlabel="direction (°)", ylabel="activity", xticks=[-180, -90, 0, 90, 180])
    low, high = np.nanmin(mean - deviation), np.nanmax(mean + deviation)
    reach(ax, x=(-190, 190), y=[high + 0.3 * (high - low)])  # room for the legend
    ax.legend(loc="upper center", ncols=3, columnspacing=1.0, handlelength=1.0)
    return ax
