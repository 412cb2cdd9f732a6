"""How fast the hands of several ensembles went, on top of each other."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach


def draw_mean_speed(
    ax: Axes, speed: Float[np.ndarray, "member trial time"], *, dt: float, label: str, color: str
) -> Axes:
    """Tangential speed over time: the mean over members, and a band from the slowest to the fastest of them.

    A member counts with its mean over trials. Call it once for each ensemble.

    **Arguments:**

    - `ax`: where to draw.
    - `speed`: of the hand, in m/s; row t is at time (t + 1) dt.
    - `dt`: the time step in s.
    - `label`, `color`: of this ensemble.
    """
    of_members = speed.mean(axis=1)
    time = dt * np.arange(1, speed.shape[-1] + 1)
    ax.plot(time, of_members.mean(axis=0), color=color, label=label)
    ax.fill_between(time, of_members.min(axis=0), of_members.max(axis=0), color=color, alpha=0.2, linewidth=0)
    ax.set(xlabel="time (s)", ylabel="hand speed (m/s)")
    reach(ax, x=[0.0], y=[0.0])
    return ax
