"""The course of the loss."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach


def draw_learning_curves(
    ax: Axes,
    batch: Int[np.ndarray, " batch"],
    loss: Float[np.ndarray, "batch member"],
    *,
    label: str = "training",
    color: str = "#0072B2",
) -> Axes:
    """Loss over training batches: members thin, their geometric mean thick, on a logarithmic axis.

    Members whose loss was not finite at some batch are left out of the mean.

    **Arguments:**

    - `ax`: where to draw.
    - `batch`: the numbers of the training batches.
    - `loss`: the total loss.
    - `label`, `color`: of this curve.
    """
    ax.plot(batch + 1, loss, color=color, linewidth=0.4, alpha=0.4)
    finite = np.isfinite(loss).all(axis=0)
    mean = np.exp(np.mean(np.log(loss[:, finite]), axis=1))
    ax.plot(batch + 1, mean, color=color, linewidth=1.5, label=f"{label}, mean of {finite.sum()} members")
    ax.set(xlabel="training batch", ylabel="loss", yscale="log", xscale="log")
    reach(ax, x=(1, batch[-1] + 1))
    return ax
