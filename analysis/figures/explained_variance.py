"""How much of the activity each component explains."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from popsim.analysis.figures.style import reach
from popsim.analysis.statistics.interval import mean_interval


def draw_explained_variance(ax: Axes, explained: Float[np.ndarray, "member component"]) -> Axes:
    """The share of each component as a bar, and of all up to it as a line: means over members.

    Members are thin lines, the band is one standard deviation over them.

    **Arguments:**

    - `ax`: where to draw.
    - `explained`: the share of the variance of each component, from 0 to 1, such as
        `principal_components(hidden, n_components=10).explained`.
    """
    number = np.arange(1, explained.shape[1] + 1)
    together = 100 * np.cumsum(explained, axis=1)
    mean = together.mean(axis=0)
    ax.bar(number, 100 * explained.mean(axis=0), color="0.8", label="each")
    ax.plot(number, together.T, color="#0072B2", linewidth=0.4, alpha=0.5)
    if len(together) > 1:
        _, low, high = mean_interval(together, method="standard deviation")
        ax.fill_between(number, low, high, color="#0072B2", alpha=0.2, linewidth=0)
    ax.plot(number, mean, "o-", color="#0072B2", markersize=3, label="together")
    ax.set(xlabel="component", ylabel="explained variance (%)")
    reach(ax, y=(0, 105))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="center right", title=f"mean of {len(explained)} members", title_fontsize=7)
    return ax
