"""Inputs or outputs of a network over time."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import COLORS, reach


def draw_channels(
    ax: Axes,
    channels: Float[np.ndarray, "time channel"],
    *,
    dt: float,
    first_at: float | None = None,
    targets: Float[np.ndarray, "time channel"] | None = None,
) -> Axes:
    """Each channel over time, and dashed in the same colour what it should be.

    Colours come again after eight channels.

    **Arguments:**

    - `ax`: where to draw.
    - `channels`: such as the outputs of a network.
    - `dt`: the time step in seconds.
    - `first_at`: the time of the first value, in seconds: 0 for inputs, which are there as a step begins;
        None for `dt`, as outputs and states are those at the end of a step.
    - `targets`: what they should be, NaN where that does not count; None for none.
    """
    times = dt * np.arange(channels.shape[0]) + (dt if first_at is None else first_at)
    for index, values in enumerate(channels.T):
        color = COLORS[index % len(COLORS)]
        ax.plot(times, values, color=color, linewidth=0.9)
        if targets is not None:
            ax.plot(times, targets[:, index], color=color, linewidth=1.4, linestyle=(0, (2, 1)), alpha=0.6)
    reach(ax, x=(0, dt * channels.shape[0]))
    return ax
