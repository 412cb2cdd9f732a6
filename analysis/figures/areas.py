"""Figures of networks of several areas."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from popsim.analysis._arrays import AnyArray, finite_float64
from popsim.analysis.figures.style import draw_signed_map

__all__ = ["draw_area_activity", "draw_area_weights"]

Groups = Mapping[str, Int[np.ndarray, " _"]]
LINE = {"color": "k", "linewidth": 0.6}


def draw_area_activity(
    ax: Axes, hidden: Float[AnyArray, "time unit"], areas: Groups, *, dt: float, label: str = "activity"
) -> Axes:
    """Draw the activity of the units of each area as a heat map, with lines and labels between areas.

    The units of an area are sorted by the time of their largest magnitude. A colour bar is added beside the
    axes.

    **Arguments:**

    - `hidden`: activity of the units of one member in one trial, or its mean over trials; row t is at time
        (t + 1) dt.
    - `areas`: numbers of the units of each area, from the top: those of `network.unit_groups()` that do not
        overlap.
    - `dt`: time step in s.
    - `label`: label of the colour bar.
    """
    values = finite_float64("hidden", hidden, "time unit")
    units = _checked_areas(areas)
    peak = np.argmax(np.abs(values), axis=0)
    order = np.concatenate([numbers[np.argsort(peak[numbers], kind="stable")] for numbers in units.values()])
    extent = (0, len(values) * dt, len(order) - 0.5, -0.5)
    draw_signed_map(ax, values[:, order].T, label=label, extent=extent)
    for border in _borders(units)[1:-1]:
        ax.axhline(border, **LINE)
    ax.set_yticks(_centers(units), list(units))
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel="time (s)", ylabel="area (units by time of peak)")
    return ax


def draw_area_weights(
    ax: Axes,
    weights: Float[AnyArray, "post pre"],
    areas: Groups,
    *,
    limit: float | None = None,
    label: str = "weight",
) -> Axes:
    """Draw recurrent weights as a heat map in blocks, with lines and labels between areas.

    A block has the weights from the area below it to the area beside it. The colour map is white at zero. A
    colour bar is added beside the axes.

    **Arguments:**

    - `weights`: [post, pre] of one member, such as `network.recurrent_weights`.
    - `areas`: as for `draw_area_activity`, or its excitatory and inhibitory units.
    - `limit`: magnitude of the darkest colours; None for the largest magnitude.
    - `label`: label of the colour bar.
    """
    values = finite_float64("weights", weights, "unit unit")
    units = _checked_areas(areas)
    order = np.concatenate(list(units.values()))
    draw_signed_map(ax, values[np.ix_(order, order)], label=label, limit=limit)
    for border in _borders(units)[1:-1]:
        ax.axhline(border, **LINE)
        ax.axvline(border, **LINE)
    ax.set_xticks(_centers(units), list(units))
    ax.set_yticks(_centers(units), list(units))
    ax.tick_params(length=0)
    ax.set(xlabel="from area", ylabel="to area")
    return ax


def _checked_areas(areas: Groups) -> dict[str, Int[np.ndarray, " _"]]:
    units = {name: np.asarray(numbers) for name, numbers in areas.items()}
    together = np.concatenate(list(units.values()))
    if together.min() < 0:
        raise ValueError(f"`areas` must be numbers of units, from 0 on, got {together.min()}.")
    if np.unique(together).size < together.size:
        raise ValueError(
            f"`areas` must not overlap, got {', '.join(map(repr, units))}: choose among the groups of the "
            "network."
        )
    return units


def _borders(units: Groups) -> Float[np.ndarray, " border"]:
    """Return the edges of areas, where unit i is drawn from i - 1/2 to i + 1/2."""
    return np.cumsum([0, *(numbers.size for numbers in units.values())]) - 0.5


def _centers(units: Groups) -> Float[np.ndarray, " area"]:
    borders = _borders(units)
    return (borders[:-1] + borders[1:]) / 2
