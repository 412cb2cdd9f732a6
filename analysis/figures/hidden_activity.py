"""What the units of a network did."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach


def draw_hidden_activity(ax: Axes, hidden: Float[np.ndarray, "time unit"], *, dt: float) -> Axes:
    """The activity of all units as a heat map, ordered by the time when they are furthest from zero.

    **Arguments:**

    - `ax`: where to draw.
    - `hidden`: the activity of the units; row t is at time (t + 1) dt.
    - `dt`: the time step in s.
    """
    order = np.argsort(np.argmax(np.abs(hidden), axis=0), kind="stable")
    largest = np.abs(hidden).max()
    n_steps, n_units = hidden.shape
    image = ax.imshow(
        hidden[:, order].T,
        aspect="auto",
        cmap="RdBu_r",
        vmin=-largest,
        vmax=largest,
        extent=(0, n_steps * dt, n_units + 0.5, 0.5),
        interpolation="nearest",
    )
    ax.set(xlabel="time (s)", ylabel="unit")
    reach(ax)  # an image fits the axes to itself
    ax.figure.colorbar(image, ax=ax, label="activity")
    return ax
