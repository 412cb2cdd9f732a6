"""The weights between units, as an image."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.figures.style import reach


def draw_weight_matrix(
    ax: Axes,
    weights: Float[AnyArray, "row column"],
    *,
    limit: float | None = None,
    label: str = "weight",
) -> Axes:
    """Weights, or their change, on a diverging map that is white at zero: from, across; to, down.

    **Arguments:**

    - `ax`: where to draw; with a bar of colours beside it.
    - `weights`: [post, pre].
    - `limit`: the weight of the darkest colours; None for the largest magnitude.
    - `label`: of the bar.
    """
    values = finite_float64("weights", weights)
    largest = limit if limit is not None else float(np.abs(values).max()) or 1.0
    image = ax.imshow(
        values, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest", aspect="auto"
    )
    ax.set(xlabel="from unit", ylabel="to unit")
    reach(ax)  # an image fits the axes to itself
    ax.figure.colorbar(image, ax=ax, label=label)
    return ax
