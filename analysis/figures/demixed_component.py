"""A demixed component over time."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.state_space import trial_colors
from popsim.analysis.figures.style import reach


def draw_demixed_component(
    ax: Axes,
    projection: Float[np.ndarray, "condition time"],
    *,
    dt: float,
    direction: Float[np.ndarray, " condition"] | None = None,
    part: str | None = None,
    explained: float | None = None,
) -> Axes:
    """One component of one member over time, a line for each condition.

    **Arguments:**

    - `ax`: where to draw.
    - `projection`: such as `demixed["direction"].projections[0, ..., 0]`, the levels of all factors in one
        axis; column t is at time (t + 1) dt.
    - `dt`: the time step in s.
    - `direction`: of each condition in rad, for its colour; None for grey.
    - `part`, `explained`: for the title: of which part of the activity the component is, such as
        "direction", and the share of the variance that it explains.
    """
    time = dt * np.arange(1, projection.shape[1] + 1)
    for values, color in zip(projection, trial_colors(direction, len(projection)), strict=True):
        ax.plot(time, values, color=color, linewidth=1.0)
    ax.set(xlabel="time (s)", ylabel="demixed component")
    reach(ax, x=(0, time[-1]))
    share = None if explained is None else f"{100 * explained:.1f} % of variance"
    ax.set_title(", ".join(text for text in (part, share) if text is not None))
    return ax
