"""The figure of `hopfield.py`: wrong units after one step, and overlaps of what asynchronous updates keep."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gates import Row
from popsim.analysis.figures import figure_style, save_figure
from references import hopfield as reference

BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"  # Okabe & Ito
CRITICAL_LOAD = 0.138  # Amit, Gutfreund & Sompolinsky 1985, Phys Rev Lett 55:1530-1533


def draw_figure(
    folder: Path, loads: np.ndarray, rows: Sequence[Row], n_units: int, overlaps: Mapping[float, np.ndarray]
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `loads`, `rows`: at each load the share of wrong units beside the exact one.
    - `n_units`: of the networks.
    - `overlaps`: by load, of larger networks [network, pattern].

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_wrong(axes[0], loads, rows, n_units)
        draw_ratios(axes[1], loads, rows)
        draw_overlaps(axes[2], overlaps)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "hopfield")
        plt.close(figure)
    return files


def draw_wrong(ax: Axes, loads: np.ndarray, rows: Sequence[Row], n_units: int) -> None:
    """The share of wrong units over the theory of finite and of infinite networks."""
    fine = np.linspace(0.085, 0.55, 200)
    limit = [reference.wrong_at_load(load) for load in fine]
    finite = [reference.gaussian_wrong(n_units, load * n_units) for load in fine]
    ax.plot(fine, finite, color=BLUE, lw=1, label=f"theory, N = {n_units}")
    ax.plot(fine, limit, "k", lw=0.7, ls=(0, (3, 3)), label="theory, N → ∞")
    errors = [row.error * row.reference for row in rows]
    values = [row.value for row in rows]
    style = {"fmt": "o", "ms": 3.5, "mfc": "w", "mew": 0.8, "lw": 0.8, "capsize": 1.5}
    ax.errorbar(loads, values, errors, color=BLUE, label="networks, mean ± SE", **style)
    ax.legend(loc="lower right", handlelength=1.6, labelspacing=0.2)
    ax.set(yscale="log", xlim=(0.05, 0.56), ylim=(2e-4, 0.2), xlabel="Load, p / N")
    ax.set_ylabel("Wrong units after one step")


def draw_ratios(ax: Axes, loads: np.ndarray, rows: Sequence[Row]) -> None:
    """The same relative to the exact share, over the gate."""
    gates = np.array([row.gate for row in rows], float)
    ax.fill_between(loads, *gates.T, color=BLUE, alpha=0.15, lw=0, label="gate, ±3.5 SE")
    ax.axhline(1, color="k", lw=0.8)
    style = {"fmt": "o", "ms": 3.5, "mfc": "w", "mew": 0.8, "lw": 0.8, "capsize": 1.5}
    ax.errorbar(loads, [row.ratio for row in rows], [row.error for row in rows], color=BLUE, **style)
    ax.legend(loc="upper right", handlelength=1.2)
    ax.set(xlim=(0.05, 0.56), xlabel="Load, p / N", ylabel="Wrong units, found / exact")


def draw_overlaps(ax: Axes, overlaps: Mapping[float, np.ndarray]) -> None:
    """Overlaps after asynchronous updates, of each pattern, and the mean of each network."""
    for at, (load, networks) in enumerate(overlaps.items()):
        places = at + np.linspace(-0.3, 0.3, len(networks))
        for place, network in zip(places, networks, strict=True):
            ax.plot(np.full(network.size, place), network, "o", ms=2, mew=0, color=GREEN, alpha=0.4)
            ax.plot(place, network.mean(), "o", ms=4, mfc="w", color=GREEN)
        if load > CRITICAL_LOAD:
            ax.axvspan(at - 0.5, at + 0.5, color="0.93", lw=0, zorder=-1)
            ax.text(at, 0.05, "above\ncritical", ha="center", va="bottom", fontsize=7, color="0.35")
    ax.plot([], [], "o", ms=2, mew=0, color=GREEN, alpha=0.4, label="pattern")
    ax.plot([], [], "o", ms=4, mfc="w", color=GREEN, label="mean of network")
    ax.legend(loc="lower left", handlelength=1, labelspacing=0.2)
    ax.set_xticks(range(len(overlaps)), [f"{load:g}" for load in overlaps])
    ax.set(
        xlim=(-0.5, len(overlaps) - 0.5), ylim=(0, 1.04), xlabel="Load, p / N", ylabel="Overlap after recall"
    )
