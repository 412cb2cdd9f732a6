"""The figure of `policy_gradient_lqr.py`: costs over training, and estimates of one gradient."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {
    "policy gradient": "#0072B2",
    "evolution": "#009E73",
    "without noise": "0.6",
    "no baseline": "#D55E00",
    "baseline": "#0072B2",
}  # Okabe & Ito


@dataclasses.dataclass(frozen=True)
class Estimates:
    """Estimates of the gradient of one step, with and without a baseline.

    - `drawn`: by name, the estimates [estimate, 2].
    - `expected`: by name, the mean and the variance of the first.
    """

    drawn: Mapping[str, np.ndarray]
    expected: Mapping[str, tuple[float, float]]


def draw_figure(
    folder: Path, courses: Mapping[str, np.ndarray], highest: Mapping[str, float], estimates: Estimates
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `courses`: by kind, the cost relative to the optimum [every tenth batch, member].
    - `highest`: by kind, the highest that passes.
    - `estimates`: of one step.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_courses(axes[0], courses, highest)
        draw_estimates(axes[1], estimates)
        draw_deviations(axes[2], estimates)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "policy_gradient_lqr")
        plt.close(figure)
    return files


def draw_courses(ax: Axes, courses: Mapping[str, np.ndarray], highest: Mapping[str, float]) -> None:
    """By how much the cost of each member exceeds the optimum, over training."""
    for name, course in courses.items():
        batches = 10 * np.arange(1, len(course) + 1)
        ax.plot(batches, 100 * (course - 1), color=COLORS[name], lw=0.8)
        ax.plot([], [], color=COLORS[name], lw=1, label=name)
    for name in ("policy gradient", "evolution"):
        ax.axhline(100 * (highest[name] - 1), color=COLORS[name], lw=0.8, ls=(0, (3, 3)))
    ax.legend(loc="upper right", handlelength=1.2, labelspacing=0.2)
    ax.set(xscale="log", yscale="log", ylim=(0.9, 1e4), xlabel="Training batch", ylabel="Cost above LQR (%)")


def draw_estimates(ax: Axes, estimates: Estimates) -> None:
    """How often each estimate is drawn, and the mean that is expected."""
    bins = np.linspace(-15, 15, 121).tolist()
    for name, drawn in estimates.drawn.items():
        ax.hist(drawn[:, 0], bins, density=True, histtype="step", color=COLORS[name], lw=0.9, label=name)
        ax.axvline(estimates.expected[name][0], color="k", lw=0.8, ls=(0, (3, 3)))
    ax.legend(handlelength=1.2, labelspacing=0.2)
    ax.set(yscale="log", xlabel="Estimate, one step", ylabel="Density")


def draw_deviations(ax: Axes, estimates: Estimates) -> None:
    """The standard deviation of the first estimates, the more of them the nearer to what is expected."""
    for name, drawn in estimates.drawn.items():
        counts = np.unique(np.geomspace(20, len(drawn), 60).astype(int))
        deviations = [drawn[:count, 0].std(ddof=1) for count in counts]
        ax.plot(counts, deviations, color=COLORS[name], lw=0.9)
        ax.axhline(estimates.expected[name][1] ** 0.5, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.set(xscale="log", ylim=(0, None), xlabel="Estimates", ylabel="Standard deviation")
