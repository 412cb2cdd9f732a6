"""The loss on the way from one point in the space of the parameters to another."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.arrays import AnyArray


def draw_loss_line(
    ax: Axes,
    positions: Float[AnyArray, " point"],
    loss: Float[AnyArray, "point member"],
    *,
    ends: tuple[str, str] = ("start", "end"),
    color: str = "#0072B2",
) -> Axes:
    """The loss along a line, on a logarithmic axis, with both ends marked: a line for each member.

    **Arguments:**

    - `ax`: where to draw.
    - `positions`, `loss`: of `loss_along_line`; losses above zero.
    - `ends`: the names of positions 0 and 1.
    - `color`: of the members.
    """
    ax.plot(np.asarray(positions), np.asarray(loss), color=color, linewidth=0.8)
    for at, name in enumerate(ends):
        ax.axvline(at, color="0.6", linewidth=0.7, linestyle="--", zorder=0)
        ax.text(at, 1.0, name, transform=ax.get_xaxis_transform(), ha="center", va="bottom", fontsize=7)
    ax.set(xlabel="position on the line", ylabel="loss", yscale="log")
    return ax
