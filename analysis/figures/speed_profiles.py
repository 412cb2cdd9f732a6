"""How fast the hand went."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach


def draw_speed_profiles(
    ax: Axes, speed: Float[np.ndarray, "member trial time"], *, dt: float, label_members: bool = True
) -> Axes:
    """Tangential speed over time: each member's mean over trials, and the band of one standard deviation.

    **Arguments:**

    - `ax`: where to draw.
    - `speed`: of the hand, in m/s; row t is at time (t + 1) dt.
    - `dt`: the time step in s.
    - `label_members`: whether a legend names the members.
    """
    time = dt * np.arange(1, speed.shape[-1] + 1)
    for index, of_member in enumerate(speed):
        mean, spread = of_member.mean(axis=0), of_member.std(axis=0)
        (line,) = ax.plot(time, mean, label=f"member {index}" if label_members else None)
        ax.fill_between(time, mean - spread, mean + spread, color=line.get_color(), alpha=0.12, linewidth=0)
    ax.set(xlabel="time (s)", ylabel="hand speed (m/s)")
    reach(ax, x=(0, time[-1]), y=[0])
    if label_members:
        ax.legend()
    return ax
