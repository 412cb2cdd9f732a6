"""The course of the losses of several ensembles, on top of each other."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes


def draw_loss_bands(
    ax: Axes,
    batch: Int[np.ndarray, " batch"],
    loss: Float[np.ndarray, "batch member"],
    *,
    label: str,
    color: str,
) -> Axes:
    """Loss over training batches: the geometric mean over members, and a band from the lowest to the highest.

    Members whose loss was not finite at some batch are left out of both. Call it once for each ensemble.

    **Arguments:**

    - `ax`: where to draw.
    - `batch`: the numbers of the training batches.
    - `loss`: the total loss.
    - `label`, `color`: of this ensemble.

    **Raises:** `ValueError` if no member has a finite loss at all batches.
    """
    finite = loss[:, np.isfinite(loss).all(axis=0)].astype(np.float64)
    if finite.size == 0:
        raise ValueError(f"`loss` must be finite for at least one member, got {loss.shape} with none.")
    mean = np.exp(np.mean(np.log(finite), axis=1))
    marker = "o" if len(batch) == 1 else ""
    ax.plot(batch + 1, mean, color=color, marker=marker, markersize=3, label=label)
    ax.fill_between(batch + 1, finite.min(axis=1), finite.max(axis=1), color=color, alpha=0.2, linewidth=0)
    ax.set(xlabel="training batch", ylabel="loss", yscale="log", xscale="log")
    return ax
