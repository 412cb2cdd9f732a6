"""How weights change in the course of training."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from popsim.analysis.arrays import AnyArray
from popsim.analysis.figures.style import reach


def draw_weight_history(
    ax: Axes,
    batch: Int[AnyArray, " batch"],
    values: Float[AnyArray, "batch member"],
    *,
    label: str,
    color: str = "#0072B2",
) -> Axes:
    """A distance or a norm over training batches: the median of the members, and a band that holds them all.

    Batches are on a logarithmic axis, which a row before training (batch -1) is not on. Members whose value
    is NaN at a row do not count there.

    **Arguments:**

    - `ax`: where to draw, again and again for several groups of parameters.
    - `batch`: the numbers of the training batches, such as `run.history.trainables_batch.values`.
    - `values`: such as `distance_from_start(run.history.dataset)[name].relative`.
    - `label`, `color`: of this group.
    """
    made, numbers = np.asarray(batch) + 1, np.asarray(values, np.float64)
    shown = (made > 0) & np.any(np.isfinite(numbers), axis=1)
    x, y = made[shown], numbers[shown]
    ax.fill_between(x, np.nanmin(y, axis=1), np.nanmax(y, axis=1), color=color, alpha=0.25, linewidth=0)
    ax.plot(x, np.nanmedian(y, axis=1), color=color, label=label)
    ax.set(xlabel="training batch", ylabel="distance", xscale="log")
    reach(ax, y=[0])
    ax.xaxis.set_minor_formatter(NullFormatter())
    return ax
