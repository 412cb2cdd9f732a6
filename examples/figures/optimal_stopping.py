"""The figure of `optimal_stopping.py`: bounds of the best player, accuracy over time, response times."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = ("#0072B2", "#009E73", "#D55E00")  # Okabe & Ito


@dataclasses.dataclass(frozen=True)
class Responses:
    """Responses in the trials of the test, with axes (member, trial), or (trial,) for a player.

    - `times`: seconds from the onset of the stimulus.
    - `payoffs`: without the cost of time.
    """

    times: np.ndarray
    payoffs: np.ndarray

    @property
    def time(self) -> np.ndarray:
        """The times."""
        return self.times

    @property
    def accuracy(self) -> np.ndarray:
        """Whether each response is right: only that is paid more than nothing."""
        return self.payoffs > 0

    def net(self, cost: float) -> np.ndarray:
        """The payoffs, less the cost of the time."""
        return self.payoffs - cost * self.times


def draw_figure(
    folder: Path,
    found: Mapping[float, Responses],
    best: Mapping[float, Responses],
    strengths: np.ndarray,
    bounds: Mapping[float, np.ndarray],
    dt: float,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `found`, `best`: by the cost of time, the responses of networks and of the best player.
    - `strengths`: the strength of the evidence in each trial.
    - `bounds`: by the cost, the accumulated evidence at which the best player chooses [step].
    - `dt`: the time step in seconds.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        colors = dict(zip(found, COLORS, strict=True))
        draw_bounds(axes[0], bounds, colors, dt)
        draw_tradeoff(axes[1], found, best, colors, strengths)
        draw_times(axes[2], found, best, colors, dt)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "optimal_stopping")
        plt.close(figure)
    return files


def draw_bounds(ax: Axes, bounds: Mapping[float, np.ndarray], colors: Mapping, dt: float) -> None:
    """The evidence at which the best player chooses."""
    for cost, bound in bounds.items():
        ax.plot(dt * np.arange(1, len(bound) + 1), bound, color=colors[cost], lw=1, label=f"{cost} / s")
    ax.legend(title="cost of time", handlelength=1.2, labelspacing=0.2)
    ax.set(xlim=(0, None), ylim=(0, 0.4), xlabel="Time (s)", ylabel="Best bound (s)")


def draw_tradeoff(
    ax: Axes,
    found: Mapping[float, Responses],
    best: Mapping[float, Responses],
    colors: Mapping,
    strengths: np.ndarray,
) -> None:
    """Accuracy over response time, for each strength of the evidence: networks, and the best player."""
    for marker, strength in zip("so", np.unique(strengths), strict=True):
        chosen = strengths == strength
        for cost, responses in found.items():
            times, accuracy = (x[..., chosen].mean(axis=-1) for x in (responses.times, responses.accuracy))
            ax.plot(times, accuracy, marker, ms=4, mfc="none", color=colors[cost], mew=0.8)
        times, accuracy = (
            [x[chosen].mean() for x in values]
            for values in ([b.times for b in best.values()], [b.accuracy for b in best.values()])
        )
        ax.plot(times, accuracy, marker, ls="--", ms=2, color="k", lw=0.8, label=f"best, {strength:g}")
    ax.legend(title="coherence", loc="lower right", handlelength=1.6, labelspacing=0.2)
    ax.set(xlim=(0, None), ylim=(0.5, 1.02), xlabel="Response time (s)", ylabel="Accuracy")


def draw_times(
    ax: Axes, found: Mapping[float, Responses], best: Mapping[float, Responses], colors: Mapping, dt: float
) -> None:
    """The fraction of trials with a response up to each time."""
    for cost, responses in found.items():
        times = dt * np.arange(int(responses.times.max() / dt + 1.5))
        for member in responses.times:
            ax.plot(times, [np.mean(member <= t + dt / 2) for t in times], color=colors[cost], lw=0.7)
        of_best = [np.mean(best[cost].times <= t + dt / 2) for t in times]
        ax.plot(times, of_best, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.set(xlim=(0, None), ylim=(0, 1.02), xlabel="Time (s)", ylabel="Fraction that responded")
