"""The same members in two or more conditions."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import COLORS, reach
from popsim.analysis.statistics.interval import mean_interval


def draw_paired_members(
    ax: Axes, values: Float[np.ndarray, "member condition"], *, names: Sequence[str], label: str
) -> Axes:
    """A thin line for each member, and beside it the mean of each condition with its 95 % interval (t).

    Whether conditions differ is seen from the slopes of the lines, not from the intervals, which are of each
    condition alone: see `popsim.analysis.statistics.paired_comparison`.

    **Arguments:**

    - `ax`: where to draw.
    - `values`: of each member in each condition, in the unit that is to be shown.
    - `names`: of the conditions.
    - `label`: of the values, with their unit.

    **Raises:** `ValueError` if there are fewer than two members, or not as many names as conditions.
    """
    n_conditions = values.shape[1]
    if len(names) != n_conditions:
        raise ValueError(f"`names` must be of {n_conditions} conditions, got {len(names)}.")
    places = np.arange(n_conditions)
    ax.plot(places, values.T, color="0.6", lw=0.7, marker="o", ms=2.5, mew=0)
    interval = mean_interval(values)
    ax.errorbar(
        places + 0.12,
        interval.estimate,
        [interval.estimate - interval.low, interval.high - interval.estimate],
        fmt="o",
        ms=4,
        color=COLORS[0],
        lw=1.4,
        label=f"mean, 95 % interval (n = {len(values)})",
    )
    ax.set_xticks(places, names)
    ax.set(ylabel=label)
    reach(ax, x=(-0.4, n_conditions - 0.6))
    ax.legend()
    return ax
