"""Singular values of a change of weights, against those of a matrix without structure."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.arrays import AnyArray, finite_float64


def draw_change_spectrum(
    ax: Axes,
    singular_values: Float[AnyArray, "member mode"],
    null: Float[AnyArray, "draw mode"],
    *,
    color: str = "#0072B2",
) -> Axes:
    """The share of each mode in the squared change: a line for each member; drawn matrices as a band.

    **Arguments:**

    - `ax`: where to draw.
    - `singular_values`: such as `change_singular_values(weights)[-1]`.
    - `null`: `gaussian_singular_values` of the same shape; the band holds all draws.
    - `color`: of the members.
    """
    own, drawn = (_shares(name, x) for name, x in (("singular_values", singular_values), ("null", null)))
    mode = np.arange(1, own.shape[1] + 1)
    ax.fill_between(mode, drawn.min(axis=0), drawn.max(axis=0), color="0.7", linewidth=0)
    ax.plot(mode, drawn.mean(axis=0), color="0.4", label="Gaussian")
    lines = ax.plot(mode, own.T, color=color, linewidth=0.8, marker=".", markersize=3)
    lines[0].set_label("members")
    ax.set(xlabel="singular mode", ylabel="share of squared change", yscale="log")
    ax.legend()
    return ax


def _shares(name: str, values: AnyArray) -> np.ndarray:
    squares = finite_float64(name, values) ** 2
    return squares / squares.sum(axis=-1, keepdims=True)
