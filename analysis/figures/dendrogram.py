"""Which members, and clusters of them, are alike."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes

from popsim.analysis.figures.style import COLORS, reach


def draw_dendrogram(
    ax: Axes,
    linkage: Float[np.ndarray, "step 4"],
    *,
    groups: Sequence[Any] | Shaped[np.ndarray, " member"] | None = None,
    label: str = "distance",
) -> Axes:
    """A tree whose branches join where their members are that far apart, by `scipy`'s dendrogram.

    **Arguments:**

    - `ax`: where to draw.
    - `linkage`: see `popsim.analysis.similarity.cluster_members`.
    - `groups`: a label of each member, which the leaves then show, each group in its colour; without it they
        have the members' numbers.
    - `label`: of the distance.

    **Raises:** `ValueError` if `groups` are not as many as members.
    """
    from scipy.cluster.hierarchy import dendrogram

    n_members = len(linkage) + 1
    names = np.arange(n_members) if groups is None else np.asarray(groups)
    if len(names) != n_members:
        raise ValueError(f"`groups` must be a label of each of {n_members} members, got {len(names)}.")
    tree = dendrogram(linkage, no_plot=True)
    for x, y in zip(tree["icoord"], tree["dcoord"], strict=True):
        ax.plot((np.array(x) - 5) / 10, y, color="0.3", lw=1, solid_capstyle="round")
    shown = names[tree["leaves"]]
    ax.set_xticks(range(n_members), [str(name) for name in shown])
    if groups is not None:
        colors = {str(name): COLORS[i % len(COLORS)] for i, name in enumerate(np.unique(names))}
        for tick in ax.get_xticklabels():
            tick.set(color=colors[tick.get_text()], rotation=45, ha="right", rotation_mode="anchor")
    ax.tick_params(axis="x", length=0)
    ax.spines["bottom"].set_visible(False)
    ax.set(xlabel="member", ylabel=label)
    reach(ax, x=(-0.5, n_members - 0.5), y=[0])
    return ax
