"""Eigenvalues of recurrent weights in the complex plane."""

import numpy as np
from jaxtyping import Complex, Int
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Circle

from popsim.analysis.arrays import AnyArray


def draw_recurrent_eigenvalues(
    ax: Axes, batch: Int[AnyArray, " batch"], eigenvalues: Complex[AnyArray, "batch unit"]
) -> Axes:
    """Where the eigenvalues of one member are, from the first recorded batches (dark) to the last (yellow),
    with the unit circle.

    **Arguments:**

    - `ax`: where to draw; with a bar of colours beside it.
    - `batch`: the numbers of the training batches.
    - `eigenvalues`: such as `recurrent_eigenvalues(weights)[:, member]`.
    """
    values = np.asarray(eigenvalues)
    made = np.maximum(np.asarray(batch) + 1, 1)
    ax.add_patch(Circle((0, 0), 1.0, fill=False, color="0.4", linewidth=0.8))
    dots = ax.scatter(
        np.real(values),
        np.imag(values),
        c=np.broadcast_to(made[:, None], values.shape),
        s=4,
        cmap="viridis",
        norm=LogNorm(vmin=made.min(), vmax=max(made.max(), made.min() + 1)),
        linewidths=0,
    )
    ax.set(xlabel="real part", ylabel="imaginary part", aspect="equal")
    ax.figure.colorbar(dots, ax=ax, label="training batch")
    return ax
