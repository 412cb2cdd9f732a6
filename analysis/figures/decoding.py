"""How well conditions are decoded over time."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach
from popsim.analysis.statistics.interval import mean_interval


def draw_decoding(
    ax: Axes,
    time: Float[np.ndarray, " time"],
    accuracy: Float[np.ndarray, "member time"],
    *,
    chance: float,
    shuffled: Float[np.ndarray, "shuffle member time"] | None = None,
) -> Axes:
    """The accuracy of decoding over time: members thin, their mean thick, a band of one standard deviation.

    **Arguments:**

    - `ax`: where to draw.
    - `time`: in s.
    - `accuracy`: the share of trials named rightly, as `popsim.analysis.population.decode_condition` gives
        it.
    - `chance`: the share that is right by chance, as a dashed line.
    - `shuffled`: accuracy with shuffled conditions; the grey band holds the middle 95 % of shuffles and
        members. None for no such band.
    """
    mean = accuracy.mean(axis=0)
    if shuffled is not None:
        low, high = np.quantile(shuffled.reshape(-1, len(time)), [0.025, 0.975], axis=0)
        ax.fill_between(time, low, high, color="0.8", linewidth=0, label="shuffled, 95 %")
    ax.axhline(chance, color="0.4", linestyle="--", linewidth=0.8, label="chance")
    ax.plot(time, accuracy.T, color="#0072B2", linewidth=0.4, alpha=0.5)
    if len(accuracy) > 1:
        _, low, high = mean_interval(accuracy, method="standard deviation")
        ax.fill_between(time, low, high, color="#0072B2", alpha=0.2, linewidth=0)
    ax.plot(time, mean, color="#0072B2", linewidth=1.5, label=f"mean of {len(accuracy)} members")
    ax.set(xlabel="time (s)", ylabel="decoding accuracy")
    reach(ax, x=(0, time[-1]), y=(0, 1.05))
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 0.25))
    return ax
