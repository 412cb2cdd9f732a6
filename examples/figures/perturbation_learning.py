"""The figure of `perturbation_learning.py`: learning curves, time constants, and a rate that is too high."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = ("#0072B2", "#E69F00", "#009E73")  # Okabe & Ito
TOO_FAST = "#D55E00"
SHORT = {
    "gradient descent": "gradient\ndescent",
    "node perturbation": "node\nperturb.",
    "weight perturbation": "weight\nperturb.",
}


@dataclasses.dataclass(frozen=True)
class Learning:
    """How the members of an ensemble learned.

    - `errors` [member, time]: |W - W*|², before the first sample and after each.
    - `standard_errors` [time]: of its mean over members.
    - `expected` [time]: its expectation.
    - `decay`, `decay_error`: 1 - f, the share of the error that a sample takes away, and its standard error.
    - `expected_decay`: its expectation.
    """

    errors: np.ndarray
    standard_errors: np.ndarray
    expected: np.ndarray
    decay: float
    decay_error: float
    expected_decay: float


def draw_figure(folder: Path, learned: Mapping[str, Learning]) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `learned`: three rules at their best rates, and node perturbation at a rate that is too high.

    **Returns:** the files.
    """
    *best, too_fast = learned.items()
    with figure_style():
        figure, axes = plt.subplots(
            1, 3, figsize=(7.0, 2.4), layout="constrained", width_ratios=[1.5, 0.9, 1]
        )
        draw_curves(axes[0], best)
        draw_time_constants(axes[1], best)
        draw_growth(axes[2], too_fast[1])
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "perturbation_learning")
        plt.close(figure)
    return files


def draw_curve(ax: Axes, learning: Learning, times: np.ndarray, color: str, *, label: str = "") -> None:
    """The expected curve, and the mean with standard error at some times over the spread of members."""
    low, high = np.quantile(learning.errors, [0.1, 0.9], axis=0)
    every = np.arange(1, len(learning.expected))
    ax.fill_between(every, low[1:], high[1:], color=color, alpha=0.15, lw=0)
    ax.plot(every, learning.expected[1:], color=color, lw=1)
    means = learning.errors.mean(axis=0)[times]
    ax.errorbar(
        times,
        means,
        learning.standard_errors[times],
        fmt="o",
        ms=3,
        mfc="w",
        mew=0.8,
        color=color,
        capsize=1.5,
        lw=0.8,
        label=label,
    )


def draw_curves(ax: Axes, best: Sequence[tuple[str, Learning]]) -> None:
    """Learning curves of the rules."""
    for color, (name, learning) in zip(COLORS, best, strict=True):
        times = np.unique(np.geomspace(1, len(learning.expected) - 1, 9).round().astype(int))
        draw_curve(ax, learning, times, color)
        ax.text(
            len(learning.expected) * 1.05,
            0.72 * learning.expected[-1],
            SHORT[name],
            color=color,
            ha="center",
            va="top",
            fontsize=7,
        )
    ax.plot([], [], "k", lw=1, label="theory")
    ax.errorbar([], [], [], fmt="o", ms=3, mfc="w", mew=0.8, color="k", label="ensemble mean ± SE")
    ax.fill_between([], [], color="k", alpha=0.15, lw=0, label="80% of members")
    ax.legend(loc="lower left", handlelength=1.2, labelspacing=0.2)
    ax.set(xscale="log", yscale="log", xlim=(0.9, 4000), ylim=(0.006, 1.5))
    ax.set(xlabel="Samples", ylabel=r"Error, $|W - W^*|^2$")


def draw_time_constants(ax: Axes, best: Sequence[tuple[str, Learning]]) -> None:
    """How many samples each rule needs to lower the error by a factor of e, 1 / (1 - f)."""
    for at, (color, (_, learning)) in enumerate(zip(COLORS, best, strict=True)):
        time_constant = 1 / learning.decay
        ax.plot([at - 0.3, at + 0.3], 2 * [1 / learning.expected_decay], "k", lw=1, zorder=0)
        error = time_constant * learning.decay_error / learning.decay
        ax.errorbar(at, time_constant, error, fmt="o", ms=4, mfc="w", color=color, capsize=2)
        ax.text(
            at + 0.12,
            time_constant * 0.72,
            f"{time_constant:.3g}",
            color=color,
            ha="center",
            va="top",
            fontsize=7,
        )
    ax.set_xticks(range(len(best)), [name.split()[0] for name, _ in best])
    ax.set(yscale="log", ylim=(5, 1200), xlim=(-0.5, len(best) - 0.5), ylabel="Time constant (samples)")


def draw_growth(ax: Axes, learning: Learning) -> None:
    """Node perturbation at a rate that is too high."""
    draw_curve(ax, learning, np.arange(5, len(learning.expected), 5), TOO_FAST)
    ax.axhline(1, color="0.6", lw=0.7, ls=(0, (3, 3)), zorder=0)
    ax.set(xlabel="Samples", ylabel=r"Error, $|W - W^*|^2$", xlim=(0, len(learning.expected)), ylim=(0, None))
    ax.text(
        0.03,
        0.97,
        "node perturbation,\n2.5 × best rate",
        transform=ax.transAxes,
        va="top",
        fontsize=7,
        color=TOO_FAST,
    )
