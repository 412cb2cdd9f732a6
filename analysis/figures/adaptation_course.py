"""How a population adapted, batch by batch."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes


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

    The band is that of Student's distribution, over two members or more. Drawn into the same axes, courses
    share the line of zero.

    **Arguments:**

    - `ax`: where to draw; the axis of the measure is left to be named, with its unit.
    - `batch`: the training batch of each row.
    - `values`: such as the adaptation index, or deviations in cm, in the unit of the axis.
    - `label`, `color`: of this course.
    - `confidence`: of the band, above 0 and below 1.

    **Raises:** `ValueError` if there are fewer than two members.
    """
    from scipy.stats import t

    if (n_members := values.shape[1]) < 2:
        raise ValueError(f"`values` must be of two members or more, got {n_members}.")
    mean = values.mean(axis=1)
    error = values.std(axis=1, ddof=1) / np.sqrt(n_members)
    reach = t.ppf((1 + confidence) / 2, n_members - 1) * error
    ax.axhline(0, color="0.8", linewidth=0.6, zorder=0)
    ax.fill_between(batch, mean - reach, mean + reach, color=color, alpha=0.25, linewidth=0)
    ax.plot(batch, mean, color=color, label=label)
    ax.set(xlabel="training batch")
    ax.set_xlim(min(batch[0], ax.dataLim.x0), max(batch[-1], ax.dataLim.x1))
    ax.legend()
    return ax
