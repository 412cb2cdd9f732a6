"""The figure of `chaos.py`: activity, autocorrelation and Lyapunov exponents of random networks."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = ("#0072B2", "#E69F00")  # Okabe & Ito, one for each gain


@dataclasses.dataclass(frozen=True)
class Autocorrelation:
    """How the activity of units is correlated over time.

    - `lags` [lag]: in time constants.
    - `found` [network, lag], `theory` [lag]: the mean product of the activity of a unit at two times.
    - `activity` [time, unit]: of some units of one network.
    """

    lags: np.ndarray
    found: np.ndarray
    theory: np.ndarray
    activity: np.ndarray


@dataclasses.dataclass(frozen=True)
class Extrapolation:
    """Largest Lyapunov exponents of networks of several sizes, in units of 1 / time constant.

    - `n_units` [size], `exponents` [size, network].
    - `slope`, `limit`, `limit_error`: of the line in 1 / N, its value at 0 and the standard error of that.
    - `theory`: for infinitely many units.
    """

    n_units: np.ndarray
    exponents: np.ndarray
    slope: float
    limit: float
    limit_error: float
    theory: float


def draw_figure(
    folder: Path,
    correlations: Mapping[float, Autocorrelation],
    extrapolations: Mapping[float, Extrapolation],
    step: float,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `correlations`, `extrapolations`: by gain.
    - `step`: of time, in time constants.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_activity(axes[0], next(iter(correlations.values())), step)
        for color, (gain, correlation) in zip(COLORS, correlations.items(), strict=False):
            draw_autocorrelation(axes[1], gain, correlation, color)
        for color, (gain, found) in zip(COLORS, extrapolations.items(), strict=False):
            draw_exponents(axes[2], gain, found, color)
        axes[1].legend(loc="upper right", handlelength=1.6, labelspacing=0.2)
        axes[1].set(xlim=(0, None), xlabel="Lag (time constants)", ylabel="Autocorrelation")
        draw_legend_of_exponents(axes[2])
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "chaos")
        plt.close(figure)
    return files


def draw_activity(ax: Axes, correlation: Autocorrelation, step: float) -> None:
    """The activity of some units over time, one above the other."""
    times = np.arange(len(correlation.activity)) * step
    apart = 4 * correlation.theory[0] ** 0.5
    for i, unit in enumerate(correlation.activity.T):
        ax.axhline(i * apart, color="0.85", lw=0.5)
        ax.plot(times, unit + i * apart, color=COLORS[0], lw=0.8)
    ax.set(xlim=(0, times[-1]), yticks=[], xlabel="Time (time constants)", ylabel="Activity of six units")


def draw_autocorrelation(ax: Axes, gain: float, correlation: Autocorrelation, color: str) -> None:
    """The mean over networks, their range, and the theory."""
    found = correlation.found
    ax.fill_between(correlation.lags, found.min(axis=0), found.max(axis=0), color=color, alpha=0.2, lw=0)
    ax.plot(correlation.lags, correlation.theory, color=color, lw=1, label=f"theory, g = {gain:g}")
    style = {"ms": 2.6, "mfc": "w", "mec": color, "mew": 0.8, "clip_on": False}
    ax.plot(correlation.lags[::3], found.mean(axis=0)[::3], "o", label="networks", **style)


def draw_exponents(ax: Axes, gain: float, found: Extrapolation, color: str) -> None:
    """The exponents of each network, their means, the line through these, and the theory."""
    inverse = 1 / found.n_units
    for x, of_size in zip(inverse, found.exponents, strict=True):
        ax.plot(np.full(of_size.size, x), of_size, "o", ms=2, mew=0, color=color, alpha=0.4)
    errors = found.exponents.std(axis=1, ddof=1) / found.exponents.shape[1] ** 0.5
    style = {"fmt": "o", "ms": 3.5, "mfc": "w", "mew": 0.8, "lw": 0.8, "capsize": 1.5}
    ax.errorbar(inverse, found.exponents.mean(axis=1), errors, color=color, **style)
    line = np.array([0, inverse.max()])
    ax.plot(line, found.limit + found.slope * line, color=color, lw=0.8, ls=(0, (3, 2)))
    ax.plot(0, found.theory, "*", ms=7, mew=0, color=color, clip_on=False, zorder=3)
    ax.text(
        inverse.max() * 1.05, found.exponents[0].mean(), f"g = {gain:g}", color=color, va="center", fontsize=7
    )
    ax.set(xlabel="1 / number of units", ylabel="Largest exponent × time constant")


def draw_legend_of_exponents(ax: Axes) -> None:
    """The legend, whose signs are the same for all gains."""
    ax.plot([], [], "o", ms=2, mew=0, color="k", alpha=0.4, label="network")
    ax.errorbar([], [], [], fmt="o", ms=3.5, mfc="w", mew=0.8, lw=0.8, color="k", label="mean ± SE")
    ax.plot([], [], "k", lw=0.8, ls=(0, (3, 2)), label="line in 1 / N")
    ax.plot([], [], "k*", ms=7, mew=0, label="theory, N → ∞")
    ax.legend(loc="lower left", handlelength=1.6, labelspacing=0.2)
    ax.set(xlim=(-0.0001, 0.0031), ylim=(0, None))
