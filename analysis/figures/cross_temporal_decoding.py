"""Whether what is decoded at one time can be decoded at others."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach


def draw_cross_temporal_decoding(
    ax: Axes,
    time: Float[np.ndarray, " time"],
    accuracy: Float[np.ndarray, "time time"],
    *,
    chance: float,
) -> Axes:
    """The accuracy of a decoder fitted at one time (upward) and tested at another (to the right).

    **Arguments:**

    - `ax`: where to draw.
    - `time`: in s, evenly spaced.
    - `accuracy`: of one member, or the mean over members, as
        `popsim.analysis.population.decode_condition_across_times` gives it.
    - `chance`: the share that is right by chance, where the colours begin unless there is less.
    """
    half = (time[1] - time[0]) / 2 if len(time) > 1 else 0.5
    first, last = time[0] - half, time[-1] + half
    image = ax.imshow(
        accuracy,
        origin="lower",
        cmap="viridis",
        vmin=min(chance, np.min(accuracy)),
        vmax=1.0,
        extent=(first, last, first, last),
        interpolation="nearest",
    )
    ax.plot([first, last], [first, last], color="white", linewidth=0.6, linestyle=":")
    ax.set(xlabel="tested at (s)", ylabel="fitted at (s)")
    reach(ax, x=(first, last), y=(first, last))
    ax.figure.colorbar(image, ax=ax, label=f"accuracy (chance {chance:.2g})", shrink=0.85)
    return ax
