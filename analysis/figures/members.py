"""Figures of members and of their similarity."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int, Shaped
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from popsim.analysis._arrays import as_groups, check_choice
from popsim.analysis.figures.style import COLORS, color_of, draw_interval, extend_limits
from popsim.analysis.statistics.intervals import interval_method, mean_interval

__all__ = [
    "draw_member_values",
    "draw_paired_members",
    "draw_member_map",
    "draw_similarity_matrix",
    "draw_dendrogram",
]


def draw_member_values(
    ax: Axes,
    values: Sequence[Float[np.ndarray, " _"]],
    *,
    names: Sequence[str],
    label: str,
    scale: Literal["linear", "log"] = "linear",
) -> Axes:
    """Draw a strip of points for each ensemble, one point per member, with a bar at the mean.

    Values that are not finite are omitted.

    **Arguments:**

    - `names`: names of the ensembles, from the top.
    - `scale`: "log" for a logarithmic axis and bars at the geometric mean, of values above zero.
    """
    check_choice("scale", scale, ("linear", "log"))
    if scale == "log":
        if any((numbers <= 0).any() for numbers in values):
            raise ValueError('`values` must be above zero for the scale "log", got some that are not.')
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    for place, numbers in enumerate(values):
        color = color_of(place)
        finite = numbers[np.isfinite(numbers)]
        if finite.size == 0:
            continue
        offsets = 0.18 * np.linspace(-1, 1, finite.size) if finite.size > 1 else np.zeros(1)
        ax.plot(finite, place + offsets, "o", color=color, markersize=3.5, alpha=0.7, markeredgewidth=0)
        mean = np.exp(np.log(finite).mean()) if scale == "log" else finite.mean()
        mean = np.clip(mean, finite.min(), finite.max())  # limits a rounding apart would make no axis
        ax.plot([mean] * 2, [place - 0.32, place + 0.32], color=color, linewidth=1.6)
    ax.set_yticks(range(len(values)), names)
    ax.yaxis.set_inverted(True)
    extend_limits(ax, y=(-0.5, len(values) - 0.5))
    ax.set(xlabel=label)
    return ax


def draw_paired_members(
    ax: Axes, values: Float[np.ndarray, "member condition"], *, names: Sequence[str], label: str
) -> Axes:
    """Draw a thin line for each member, and the mean of each condition with its 95 % interval.

    The interval is as in `draw_ensemble_band`. Differences between conditions show in the slopes of the
    lines, not in the intervals, which are of single conditions.
    """
    n_conditions = values.shape[1]
    places = np.arange(n_conditions)
    ax.plot(places, values.T, color="0.6", lw=0.7, marker="o", ms=2.5, mew=0)
    interval = mean_interval(values, method=interval_method(values))
    draw_interval(ax, places + 0.12, interval, label=f"mean, 95 % interval (n = {len(values)})")
    ax.set_xticks(places, names)
    ax.set(ylabel=label)
    extend_limits(ax, x=(-0.4, n_conditions - 0.6))
    # Above the axes: with two conditions, every place within them may be that of a line or of an interval.
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    return ax


GROUP_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw_member_map(
    ax: Axes,
    positions: Float[np.ndarray, "member two"],
    *,
    groups: Sequence[Any] | Shaped[np.ndarray, " member"] | None = None,
    fraction: float | None = None,
) -> Axes:
    """Draw a point for each member, with the colour and marker of its group, at equal aspect.

    **Arguments:**

    - `positions`, `fraction`: see `popsim.analysis.similarity.MemberMap`.
    - `groups`: label of each member, for the legend. Without it, points show the numbers of the members.
    """
    if groups is None:
        ax.plot(*positions.T, "o", color=COLORS[0], ms=4)
        for number, place in enumerate(positions):
            ax.annotate(str(number), place, xytext=(3, 3), textcoords="offset points", fontsize=7)
    else:
        names = as_groups(groups, len(positions))
        for index, name in enumerate(np.unique(names)):
            marker, look = GROUP_MARKERS[index % len(GROUP_MARKERS)], {"ms": 4.5, "mew": 0.4, "mec": "white"}
            ax.plot(*positions[names == name].T, marker, color=color_of(index), label=str(name), **look)
        ax.legend(handletextpad=0.1)
    if fraction is not None:
        ax.set_title(f"the map shows {100 * fraction:.0f} % of the spread")
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.15)
    ax.set(xlabel="first dimension of the map", ylabel="second dimension of the map")
    return ax


def draw_similarity_matrix(
    ax: Axes,
    values: Float[np.ndarray, "member member"],
    *,
    groups: Sequence[Any] | Shaped[np.ndarray, " member"] | None = None,
    order: Int[np.ndarray, " member"] | None = None,
    label: str = "distance",
) -> Axes:
    """Draw a measure of all pairs of members as a heat map, with lines between groups.

    **Arguments:**

    - `values`: see `popsim.analysis.similarity.pairwise`.
    - `groups`: label of each member; members are sorted by group.
    - `order`: order of the members from the top, such as the leaves of a dendrogram. By default unchanged.
    """
    n_members = len(values)
    shown = np.arange(n_members) if order is None else order
    if sorted(shown.tolist()) != list(range(n_members)):
        raise ValueError(f"`order` must have each of {n_members} members once, got {shown.tolist()}.")
    if groups is not None:
        names = as_groups(groups, n_members)
        shown = shown[np.argsort(names[shown], kind="stable")]
        group_names, counts = np.unique(names, return_counts=True)
        ends = np.cumsum(counts)
        for end in ends[:-1]:
            ax.axhline(end - 0.5, color="white", lw=1.2)
            ax.axvline(end - 0.5, color="white", lw=1.2)
        middles = ends - counts / 2 - 0.5
        ax.set(xticks=middles, xticklabels=group_names, yticks=middles, yticklabels=group_names)
    else:
        ax.set(xticks=range(n_members), xticklabels=shown, yticks=range(n_members), yticklabels=shown)
    image = ax.imshow(values[np.ix_(shown, shown)], cmap="viridis", interpolation="nearest")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="member", ylabel="member")
    extend_limits(ax)  # an image sets the limits of its axes
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.8)
    return ax


def draw_dendrogram(
    ax: Axes,
    linkage: Float[np.ndarray, "step 4"],
    *,
    groups: Sequence[Any] | Shaped[np.ndarray, " member"] | None = None,
    label: str = "distance",
) -> Axes:
    """Draw a tree whose branches join at the distance of their clusters, by `scipy`'s dendrogram.

    **Arguments:**

    - `linkage`: see `popsim.analysis.similarity.cluster_members`.
    - `groups`: label of each member at its leaf, in the colour of the group; None for the numbers of members.
    """
    from scipy.cluster.hierarchy import dendrogram

    n_members = len(linkage) + 1
    names = np.arange(n_members) if groups is None else as_groups(groups, n_members)
    tree = dendrogram(linkage, no_plot=True)
    for x, y in zip(tree["icoord"], tree["dcoord"], strict=True):
        ax.plot((np.array(x) - 5) / 10, y, color="0.3", lw=1, solid_capstyle="round")
    shown = names[tree["leaves"]]
    ax.set_xticks(range(n_members), [str(name) for name in shown])
    if groups is not None:
        colors = {str(name): color_of(index) for index, name in enumerate(np.unique(names))}
        for tick in ax.get_xticklabels():
            tick.set(color=colors[tick.get_text()], rotation=45, ha="right", rotation_mode="anchor")
    ax.tick_params(axis="x", length=0)
    ax.spines["bottom"].set_visible(False)
    ax.set(xlabel="member", ylabel=label)
    extend_limits(ax, x=(-0.5, n_members - 0.5), y=[0])
    return ax
