"""How alike all pairs of members are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from matplotlib.axes import Axes

from popsim.analysis.figures.style import reach


def draw_similarity_matrix(
    ax: Axes,
    values: Float[np.ndarray, "member member"],
    *,
    groups: Sequence[Any] | Shaped[np.ndarray, " member"] | None = None,
    order: Int[np.ndarray, " member"] | None = None,
    label: str = "distance",
) -> Axes:
    """A measure of all pairs of members as a heat map, with lines between groups.

    **Arguments:**

    - `ax`: where to draw.
    - `values`: of the measure, see `popsim.analysis.similarity.pairwise`.
    - `groups`: a label of each member; members of a group stand together, groups in sorted order.
    - `order`: of the members from top to bottom, such as the leaves of a dendrogram; by default as they are.
    - `label`: of the measure.

    **Raises:** `ValueError` if `groups` are not as many as members, or `order` is not an order of them.
    """
    n_members = len(values)
    shown = np.arange(n_members) if order is None else order
    if sorted(shown.tolist()) != list(range(n_members)):
        raise ValueError(f"`order` must have each of {n_members} members once, got {shown.tolist()}.")
    if groups is not None:
        names = np.asarray(groups)
        if len(names) != n_members:
            raise ValueError(f"`groups` must be a label of each of {n_members} members, got {len(names)}.")
        shown = shown[np.argsort(names[shown], kind="stable")]
        found, counts = np.unique(names, return_counts=True)
        ends = np.cumsum(counts)
        for end in ends[:-1]:
            ax.axhline(end - 0.5, color="white", lw=1.2)
            ax.axvline(end - 0.5, color="white", lw=1.2)
        middles = ends - counts / 2 - 0.5
        ax.set(xticks=middles, xticklabels=found, yticks=middles, yticklabels=found)
    else:
        ax.set(xticks=range(n_members), xticklabels=shown, yticks=range(n_members), yticklabels=shown)
    image = ax.imshow(values[np.ix_(shown, shown)], cmap="viridis", interpolation="nearest")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="member", ylabel="member")
    reach(ax)  # an image fits the axes to itself
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.8)
    return ax
