"""Members together: their mean and a band around it."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.statistics.interval import IntervalMethod, mean_interval


def draw_ensemble_band(
    ax: Axes,
    x: Float[np.ndarray, " x"],
    values: Float[np.ndarray, "member x"],
    *,
    method: IntervalMethod = "t",
    color: str | None = None,
    label: str = "mean",
) -> Axes:
    """The mean over members, and a band whose meaning the legend says.

    Members come first, as in `popsim.analysis.statistics`: give `.T` of values with axes (batch, member).

    **Arguments:**

    - `ax`: where to draw.
    - `x`: what the values were measured at, in the unit that is to be shown.
    - `values`: of each member, in the unit that is to be shown.
    - `method`: of the band, see `popsim.analysis.statistics.mean_interval`; "t" is a 95 % interval.
    - `color`: of line and band; by default the next one of the axes.
    - `label`: of the line; the legend adds what the band is and the number of members.

    **Raises:** `ValueError` as `mean_interval`.
    """
    interval = mean_interval(values, method=method)
    band = "95 % interval" if method == "t" else method
    (line,) = ax.plot(x, interval.estimate, color=color, label=f"{label}, {band} (n = {len(values)})")
    ax.fill_between(x, interval.low, interval.high, color=line.get_color(), alpha=0.25, linewidth=0)
    ax.legend()
    return ax
