"""The figure of `speed.py`: ratios to plain JAX, and the growth of time and memory on log axes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from speed_works import Row

GROWTH = {"wall ms": "time of a batch (ms)", "MB": "peak memory (MB)"}


def draw(rows: Sequence[Row]) -> Figure:
    """Draw what the rows have: ratios, growth of time, growth of memory."""
    ratios = [row for row in rows if "to plain JAX" in row.values and row.who != "plain JAX"]
    grown = [row for row in rows if "size" in row.values]
    panels = [(_draw_ratios, ratios, "to plain JAX")] if ratios else []
    panels += [(_draw_growth, grown, name) for name in GROWTH if grown]
    figure = Figure(figsize=(4.8 * max(1, len(panels)), 3.8), layout="constrained")
    for place, (draw_panel, panel_rows, name) in enumerate(panels):
        draw_panel(figure.add_subplot(1, len(panels), place + 1), panel_rows, name)
    return figure


def _draw_ratios(ax: Axes, rows: Sequence[Row], name: str) -> None:
    """A point for each row with the range of its turns; plain JAX is the line at one."""
    cases = list(dict.fromkeys((row.work, row.case) for row in rows))
    for who in dict.fromkeys(row.who for row in rows):
        contestant_rows = [row for row in rows if row.who == who]
        middle, least, most = (
            np.array([row.values[key] for row in contestant_rows]) for key in (name, "least", "most")
        )
        places = [cases.index((row.work, row.case)) for row in contestant_rows]
        ax.errorbar(middle, places, xerr=(middle - least, most - middle), fmt="o", label=who)
    ax.axvline(1.0, color="0.5", linewidth=0.8)
    ax.set(xscale="log", xlabel="time of a batch, of plain JAX's", yticks=range(len(cases)))
    ax.set_yticklabels([f"{work}, {case}" for work, case in cases])
    ax.invert_yaxis()
    ax.legend(frameon=False, fontsize="small")


def _draw_growth(ax: Axes, rows: Sequence[Row], name: str) -> None:
    """A line for each quantity that grows; the slope of its larger half is in the key."""
    for who in dict.fromkeys(row.who for row in rows):
        quantity_rows = sorted((row for row in rows if row.who == who), key=lambda row: row.values["size"])
        size, cost = (np.array([row.values[key] for row in quantity_rows]) for key in ("size", name))
        label = f"{who}: slope {slope(size, cost):.2f}" if len(quantity_rows) > 1 else who
        ax.plot(size / size[0], cost, "o-", label=label)
    ax.set(xscale="log", yscale="log", xlabel="size, of the smallest", ylabel=GROWTH[name])
    ax.legend(frameon=False, fontsize="small")


def slope(size: np.ndarray, cost: np.ndarray) -> float:
    """The exponent of growth, fitted on log axes to the larger half of the sizes."""
    half = len(size) // 2 if len(size) > 3 else 0
    return float(np.polyfit(np.log(size[half:]), np.log(cost[half:]), 1)[0])
