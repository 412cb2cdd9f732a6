"""Figures of sweeps over settings, and of populations that select among their members."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from popsim.analysis._arrays import AnyArray
from popsim.analysis.figures.style import COLORS, draw_interval, extend_limits
from popsim.analysis.statistics import geometric_mean_interval, mean_interval
from popsim.training import ancestors

__all__ = ["draw_setting_map", "draw_setting_scores", "draw_genealogy", "draw_discovered_schedules"]

FEWEST_IN_INTERVAL = 3
WIDE = 20  # from this ratio of the largest to the smallest score on, the scale is logarithmic


def draw_setting_scores(
    ax: Axes, scores: Sequence[Float[np.ndarray, " _"]], *, names: Sequence[str], axis: str, label: str
) -> Axes:
    """Draw a score against the values of a setting: a point for each member, their mean and 95 % interval.

    The interval needs three members: that of two reaches over orders of magnitude. If all scores are above
    zero, such as losses, these are the geometric mean and its interval
    (`popsim.analysis.statistics.geometric_mean_interval`), else the mean and that of `mean_interval`.

    **Arguments:**

    - `scores`: of the members with each value of the setting; those that are not finite are left out.
    """
    finite_scores = [values[np.isfinite(values)] for values in scores]
    is_positive = all((values > 0).all() for values in finite_scores)
    interval_of = geometric_mean_interval if is_positive else mean_interval
    drawn = [*finite_scores]  # and the intervals
    for place, finite in enumerate(finite_scores):
        spread = np.linspace(-0.12, 0.12, finite.size) if finite.size > 1 else np.zeros(finite.size)
        ax.plot(place + spread, finite, "o", color="0.6", ms=2.5, mew=0)
        if finite.size > 1:
            interval = interval_of(finite)
            if finite.size < FEWEST_IN_INTERVAL:  # the mean alone
                interval = interval._replace(low=interval.estimate, high=interval.estimate)
            draw_interval(ax, [place], interval)
            drawn.append(np.ravel(interval))
    numbers = np.concatenate(drawn)
    if is_positive and numbers.size and numbers.max() > WIDE * numbers.min():
        ax.set_yscale("log")
    ax.set_xticks(range(len(scores)), names)
    ax.set(xlabel=axis, ylabel=label)
    extend_limits(ax, x=(-0.4, len(scores) - 0.6))
    return ax


def draw_setting_map(
    ax: Axes,
    scores: Float[np.ndarray, "row column"],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    axes: tuple[str, str],
    label: str,
) -> Axes:
    """Draw a score over two settings as a heat map, with its numbers; what is not known stays white.

    **Arguments:**

    - `scores`: the score at each pair of values, NaN where it is not known.
    """
    finite = scores[np.isfinite(scores)]
    is_wide = finite.size > 0 and finite.min() > 0 and finite.max() > WIDE * finite.min()
    norm = "log" if is_wide else "linear"
    image = ax.imshow(scores, cmap="viridis", norm=norm, interpolation="nearest", aspect="auto")
    shades = np.asarray(image.norm(scores))
    for (row, column), score in np.ndenumerate(scores):
        if np.isfinite(score):
            look: Any = {"ha": "center", "va": "center", "fontsize": 7}
            ax.text(column, row, f"{score:.3g}", color="w" if shades[row, column] < 0.5 else "k", **look)
    ax.set_xticks(range(scores.shape[1]), columns)
    ax.set_yticks(range(scores.shape[0]), rows)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel=axes[1], ylabel=axes[0])
    extend_limits(ax)
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.8)
    return ax


def draw_genealogy(
    ax: Axes,
    batch: Int[np.ndarray, " selection"],
    parent: Int[np.ndarray, "selection member"],
    *,
    best: int | None = None,
) -> Axes:
    """Draw a line for each member, which leaves that of another where it took its weights.

    Lines whose weights live on at the end are dark, others light.

    **Arguments:**

    - `batch`, `parent`: those of `history.updates["selection"]`.
    """
    n_selections, n_members = parent.shape
    line = np.concatenate([ancestors(parent), np.arange(n_members)[None]])
    alive = [set(places) for places in line.tolist()]
    x = np.concatenate([[0], batch + 1])
    width = float(np.diff(x).mean()) if n_selections else 1.0
    ends = np.append(x, x[-1] + width)
    for row in range(n_selections + 1):
        for member in range(n_members):
            color = "0.35" if member in alive[row] else "0.85"
            ax.plot(ends[row : row + 2], [member, member], color=color, lw=1.0, zorder=2)
            if row < n_selections and parent[row, member] != member:
                living = member in alive[row + 1]
                ax.plot(
                    [ends[row + 1]] * 2,
                    [parent[row, member], member],
                    color="0.35" if living else "0.85",
                    lw=0.8,
                    zorder=2 if living else 1,
                )
    if best is not None:
        best_line = line[:, best]
        ax.step(ends, np.append(best_line, best_line[-1]), where="post", color=COLORS[5], lw=2.0, zorder=3)
    ax.set(xlabel="training batch", ylabel="member")
    extend_limits(ax, x=(0, float(ends[-1])), y=(-0.5, n_members - 0.5))
    return ax


def draw_discovered_schedules(
    ax: Axes,
    batch: Int[AnyArray, " selection"],
    values: Float[AnyArray, "selection member"],
    parent: Int[AnyArray, "selection member"],
    *,
    label: str,
    start: Float[AnyArray, " member"] | None = None,
    best: int | None = None,
) -> Axes:
    """Draw a hyperparameter over training as the members at the end have inherited it.

    **Arguments:**

    - `batch`, `parent`: see `draw_genealogy`.
    - `values`: the hyperparameter of each member after each selection, as
        `history.updates["selection"]["hyperparameter." + name]`.
    """
    parent = np.asarray(parent)
    n_selections, n_members = parent.shape
    line = ancestors(parent)
    after = np.concatenate([line[1:], np.arange(n_members)[None]]) if n_selections else line
    inherited = np.take_along_axis(values, after, axis=1)
    x = batch + 1
    if start is not None:
        inherited = np.concatenate([np.asarray(start)[line[:1]], inherited])
        x = np.append(0, x)
    width = float(np.diff(x).mean()) if x.size > 1 else 1.0
    x, inherited = np.append(x, x[-1] + width), np.concatenate([inherited, inherited[-1:]])
    for member in np.setdiff1d(np.arange(n_members), [-1 if best is None else best]):
        ax.step(x, inherited[:, member], where="post", color="0.7", lw=0.8)
    if best is not None:
        ax.step(x, inherited[:, best], where="post", color=COLORS[5], lw=2.0)
    if np.all(values > 0):
        ax.set_yscale("log")
    ax.set(xlabel="training batch", ylabel=label)
    extend_limits(ax, x=(0, float(x[-1])))
    return ax
