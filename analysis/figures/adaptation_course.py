"""How a population adapted, batch by batch."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach
from popsim.analysis.statistics.interval import mean_interval


def draw_adaptation_course(
    ax: Axes,
    batch: Int[np.ndarray, " batch"],
    values: Float[np.ndarray, "batch member"],
    *,
    label: str,
    color: str = "#0072B2",
    confidence: float = 0.95,
) -> Axes:
    """The mean over members, and the band of its confidence interval, of a measure that may be negative.

    The band is that of Student's distribution over members, see `popsim.analysis.statistics.mean_interval`.
    Drawn into the same axes, courses share the line of zero. As in a learning curve, and other than in
    `draw_ensemble_band`, values are (batch, member), and batches are counted from 1.

    **Arguments:**

    - `ax`: where to draw; the axis of the measure is left to be named, with its unit.
    - `batch`: the numbers of the training batches, from 0.
    - `values`: such as the adaptation index, or deviations in cm, in the unit of the axis.
    - `label`, `color`: of this course.
    - `confidence`: of the band, above 0 and below 1.

    **Raises:** `ValueError` if there are fewer than two members, a value is not finite, or `confidence` is
    not above 0 and below 1.
    """
    if (n_members := values.shape[1]) < 2:
        raise ValueError(f"`values` must be of two members or more, got {n_members}.")
    interval = mean_interval(values.T, confidence=confidence)
    count = batch + 1
    ax.axhline(0, color="0.8", linewidth=0.6, zorder=0)
    ax.fill_between(count, interval.low, interval.high, color=color, alpha=0.25, linewidth=0)
    ax.plot(count, interval.estimate, color=color, label=label)
    ax.set(xlabel="training batch")
    reach(ax, x=(count[0], count[-1]))
    ax.legend()
    return ax
