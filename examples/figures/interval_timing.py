"""The figure of `interval_timing.py`: produced intervals beside the best estimates, and errors."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {"short": "#56B4E9", "middle": "#0072B2", "long": "#D55E00"}  # Okabe & Ito


@dataclasses.dataclass(frozen=True)
class Timed:
    """What two networks, trained with and without noise, produced in the trials of one prior.

    - `shown` [measurement], `means` [member, measurement], `estimates` [measurement]: intervals that were
        shown, the mean of those that were produced, and the best estimates, in s.
    - `squares` [member, trial], `best_squares`, `measured_squares` [trial]: in noisy trials the squared
        errors of what was produced, of the best estimate, and of the measurement, in s².
    """

    shown: np.ndarray
    means: np.ndarray
    estimates: np.ndarray
    squares: np.ndarray
    best_squares: np.ndarray
    measured_squares: np.ndarray


def draw_figure(
    folder: Path, results: Mapping[str, Timed], priors: Mapping[str, tuple[float, float]]
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `results`: by prior.
    - `priors`: their bounds, in s.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.5), layout="constrained")
        for number, (name, timed) in enumerate(results.items()):
            for ax, means in zip(axes[:2], timed.means, strict=True):
                draw_intervals(ax, name, timed, means)
            draw_errors(axes[2], number, timed, COLORS[name])
        for ax, title in zip(axes[:2], ("with noise", "without noise"), strict=True):
            ax.plot([0.4, 1.35], [0.4, 1.35], color="0.6", lw=0.8, ls=(0, (3, 3)), zorder=0)
            ax.set(xlim=(0.4, 1.35), ylim=(0.4, 1.35), aspect="equal", title=f"trained {title}")
            ax.set(xlabel="Interval shown (s)", ylabel="Interval produced (s)")
        axes[0].legend(loc="upper left", handlelength=1.2, labelspacing=0.2)
        axes[2].set_xticks(
            range(len(results)), [f"{name}\n{priors[name][0]:.2f}–{priors[name][1]:.2f}" for name in results]
        )
        axes[2].set(ylim=(0, None), xlim=(-0.6, len(results) - 0.4), ylabel="Error (s)", xlabel="Prior (s)")
        axes[2].legend(loc="lower right", fontsize=6, handlelength=1.0, labelspacing=0.2)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "interval_timing")
        plt.close(figure)
    return files


def draw_intervals(ax: Axes, name: str, timed: Timed, means: np.ndarray) -> None:
    """The best estimate as a line, and what the network produced as points."""
    ax.plot(timed.shown, timed.estimates, color=COLORS[name], lw=1, label=name)
    ax.plot(timed.shown, means, "o", ms=3, mfc="none", mec=COLORS[name], mew=0.8)


def draw_errors(ax: Axes, number: int, timed: Timed, color: str) -> None:
    """The errors of networks trained with and without noise, between those of the two observers."""

    def label(text: str) -> str:
        return "_" if number else text  # once in the legend

    for squares, style, text in (
        (timed.best_squares, "-", "best estimate"),
        (timed.measured_squares, ":", "measurement"),
    ):
        level = squares.mean() ** 0.5
        ax.plot([number - 0.35, number + 0.35], 2 * [level], "k", ls=style, lw=0.9, label=label(text))
    kinds = ((color, "with noise"), ("none", "without"))
    for squares, (fill, text) in zip(timed.squares, kinds, strict=True):
        ax.plot(number, squares.mean() ** 0.5, "o", ms=4, mfc=fill, mec=color, mew=0.8, label=label(text))
