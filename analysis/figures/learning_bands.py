"""How fast a population learned, and how sure that is."""

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach
from popsim.analysis.learning import LearningCurve


def draw_learning_bands(
    ax: Axes,
    batch: Int[np.ndarray, " batch"],
    curve: LearningCurve,
    *,
    label: str = "training",
    color: str = "#0072B2",
) -> Axes:
    """The mean over members of a loss, and the band of its confidence interval, on logarithmic axes.

    **Arguments:**

    - `ax`: where to draw.
    - `batch`: the numbers of the training batches.
    - `curve`: see `popsim.analysis.learning.learning_curve`.
    - `label`, `color`: of this curve.
    """
    ax.fill_between(batch + 1, curve.low, curve.high, color=color, alpha=0.25, linewidth=0)
    ax.plot(batch + 1, curve.mean, color=color, label=f"{label}, {curve.n_members} members")
    ax.set(xlabel="training batch", ylabel="loss", yscale="log", xscale="log")
    reach(ax, x=(1, batch[-1] + 1))
    ax.legend()
    return ax
