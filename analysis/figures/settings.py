"""Figures of scores over settings, as in a sweep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from popsim.analysis.figures.style import draw_interval, extend_limits
from popsim.analysis.statistics import geometric_mean_interval, mean_interval

__all__ = ["draw_setting_map", "draw_setting_scores"]

WIDE = 20  # from this ratio of the largest to the smallest score on, the scale is logarithmic


def draw_setting_scores(
    ax: Axes, scores: Sequence[Float[np.ndarray, " _"]], *, names: Sequence[str], axis: str, label: str
) -> Axes:
    """Draw a score against the values of a setting: a point for each member, their mean and 95 % interval.

    If all scores are above zero, such as losses, these are the geometric mean and its interval
    (`popsim.analysis.statistics.geometric_mean_interval`), else the mean and that of `mean_interval`.

    **Arguments:**

    - `scores`: for each value of the setting, the scores of its members, or of what else is a replicate;
        those that are not finite are left out.
    - `names`: the values of the setting, as text.
    - `axis`, `label`: the name of the setting and of the score, with their units.
    """
    finite_scores = [values[np.isfinite(values)] for values in scores]
    is_positive = all((values > 0).all() for values in finite_scores)
    interval_of = geometric_mean_interval if is_positive else mean_interval
    for place, finite in enumerate(finite_scores):
        spread = np.linspace(-0.12, 0.12, finite.size) if finite.size > 1 else np.zeros(finite.size)
        ax.plot(place + spread, finite, "o", color="0.6", ms=2.5, mew=0)
        if finite.size > 1:
            draw_interval(ax, [place], interval_of(finite))
    largest = max((numbers.max() for numbers in finite_scores if numbers.size), default=1.0)
    smallest = min((numbers.min() for numbers in finite_scores if numbers.size), default=1.0)
    if smallest > 0 and largest > WIDE * smallest:
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
    - `rows`, `columns`: the values of the two settings, as text.
    - `axes`: the names of the settings of rows and columns, with their units.
    - `label`: the name of the score, with its unit.
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
