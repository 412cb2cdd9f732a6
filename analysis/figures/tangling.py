"""How tangled two sets of activity are at the same times."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import COLORS, reach


def draw_tangling(
    ax: Axes,
    reference: Float[np.ndarray, "member trial time"],
    tangling: Float[np.ndarray, "member trial time"],
    *,
    reference_name: str = "output",
    name: str = "network",
) -> Axes:
    """The tangling of a network against that of what it drives.

    A point for each time of each trial, a colour for each member. Points below the line are less tangled in
    the network. After Russo et al. 2018, Neuron 97:953, Figure 4 (cited from memory).

    **Arguments:**

    - `ax`: where to draw.
    - `reference`: of what the network drives, such as muscles or the hand, in 1/s^2; on the horizontal axis.
    - `tangling`: of the network at the same times, in 1/s^2.
    - `reference_name`, `name`: for the labels of the axes.
    """
    largest = 1.05 * max(float(reference.max()), float(tangling.max()))
    ax.plot([0, largest], [0, largest], color="0.4", linestyle="--", linewidth=0.8)
    for index, (across, up) in enumerate(zip(reference, tangling, strict=True)):
        color = COLORS[index % len(COLORS)]
        ax.plot(across.ravel(), up.ravel(), ".", color=color, markersize=1.5, alpha=0.5, rasterized=True)
    ax.set(aspect="equal")
    reach(ax, x=(0, largest), y=(0, largest))
    ax.set(xlabel=f"tangling of the {reference_name} (1/s²)", ylabel=f"tangling of the {name} (1/s²)")
    ax.ticklabel_format(style="sci", scilimits=(-2, 4))
    return ax
