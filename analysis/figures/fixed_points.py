"""Where the dynamics rest, among the states that were visited."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

# Black, red, green and blue as in Maheswaranathan et al. 2019, in the hues of Okabe & Ito, each with a shape.
KIND_COLORS = ("#000000", "#D55E00", "#009E73", "#0072B2", "#CC79A7")
KIND_MARKERS = ("o", "^", "s", "*", "D")


def unstable_label(kind: int) -> str:
    """What a legend calls points of a kind, their number of unstable directions up to the last colour."""
    return f"{kind} or more unstable" if kind == len(KIND_COLORS) - 1 else f"{kind} unstable"


def draw_fixed_points(
    ax: Axes,
    points: Float[np.ndarray, "point axis"],
    n_unstable: Int[np.ndarray, " point"],
    *,
    paths: Float[np.ndarray, "path time axis"] | None = None,
) -> Axes:
    """Fixed points by their number of unstable directions, over thin paths of visited states.

    After figure 1 of Maheswaranathan et al. 2019, NeurIPS 32:15629.

    **Arguments:**

    - `ax`: where to draw; for three dimensions made with `projection="3d"`.
    - `points`: the points in two or three dimensions, such as principal components of the visited states.
    - `n_unstable`: how many unstable directions each has, `FixedPoints.n_unstable`; 4 and more look alike.
    - `paths`: of visited states, in the same dimensions.

    **Raises:** `ValueError` if the dimensions are not those of the axes, or the points are not as many.
    """
    n_dimensions = 3 if ax.name == "3d" else 2
    if points.shape[1] != n_dimensions or len(points) != len(n_unstable):
        raise ValueError(
            f"`points` must be {len(n_unstable)}, in {n_dimensions} dimensions, got shape {points.shape}."
        )
    for path in () if paths is None else paths:
        ax.plot(*path.T, color="0.75", lw=0.4, zorder=1)
    shown = np.minimum(n_unstable, len(KIND_COLORS) - 1)
    for kind in np.unique(shown):
        size = 26 if KIND_MARKERS[kind] == "*" else 12
        own = points[shown == kind].T
        label = "stable" if kind == 0 else unstable_label(kind)
        look = {
            "color": KIND_COLORS[kind],
            "marker": KIND_MARKERS[kind],
            "linewidths": 0,
            "zorder": 3,
            "label": label,
        }
        ax.scatter(*own, s=size, **look, **({"depthshade": False} if n_dimensions == 3 else {}))
    for letter, number in zip("xyz"[:n_dimensions], range(1, 4), strict=False):
        ax.set(**{f"{letter}label": f"component {number}"})
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=2, handletextpad=0.2, columnspacing=1, borderaxespad=0
    )
    return ax
