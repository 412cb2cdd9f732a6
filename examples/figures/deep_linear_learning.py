"""The figure of `deep_linear_learning.py`: modes learned as sigmoids, one after the other."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")  # Okabe & Ito
LEARNING_RATES = {"coarse": r"$\eta$ = 0.01", "fine": r"$\eta$ = 0.001"}


@dataclasses.dataclass(frozen=True)
class Course:
    """How the modes of an ensemble were learned.

    - `times` [time]: learning rate times the number of batches made, from 0.
    - `strengths` [member, mode, time].
    - `drift` [member]: the largest change of what the gradient flow conserves.
    """

    times: np.ndarray
    strengths: np.ndarray
    drift: np.ndarray


def draw_figure(
    folder: Path,
    courses: Mapping[str, Course],
    n_aligned: int,
    singular_values: Sequence[float],
    sigmoids: Callable[[np.ndarray], np.ndarray],
    scaled: np.ndarray,
    expected: Sequence[float],
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `courses`: those at two learning rates, "coarse" and "fine".
    - `n_aligned`: how many members start aligned; the others start at random.
    - `singular_values`: s of each mode.
    - `sigmoids`: from times to the strengths [mode, time] of the closed form.
    - `scaled`: s times the half time of each random member and mode.
    - `expected`: its expectation for each mode.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(2, 2, figsize=(5.4, 4.4), layout="constrained")
        aligned = courses["fine"].strengths[0]
        draw_aligned(axes[0, 0], courses["fine"].times, aligned, singular_values, sigmoids)
        draw_errors(axes[0, 1], courses, singular_values, sigmoids)
        random = courses["fine"].strengths[n_aligned:]
        draw_random(axes[1, 0], courses["fine"].times, random, singular_values)
        draw_scaled(axes[1, 1], scaled, expected, singular_values)
        for letter, ax in zip("abcd", axes.flat, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "deep_linear_learning")
        plt.close(figure)
    return files


def draw_aligned(ax: Axes, times: np.ndarray, strengths: np.ndarray, singular_values, sigmoids) -> None:
    """The modes [mode, time] of an aligned member over the closed form."""
    fine = np.linspace(0, 5.2, 400)
    for color, s, course, theory in zip(COLORS, singular_values, strengths, sigmoids(fine), strict=True):
        ax.plot(fine, theory, color=color, lw=1)
        shown = slice(0, int(np.searchsorted(times, 5.2)), 12)
        ax.plot(times[shown], course[shown], "o", ms=2.6, mfc="w", mec=color, mew=0.8, clip_on=False)
        ax.text(5.3, s, f"s = {s:g}", color=color, va="center", fontsize=7)
    ax.plot([], [], "k", lw=1, label="theory")
    ax.plot([], [], "ko", ms=2.6, mfc="w", mew=0.8, label="network")
    ax.legend(loc="center right", bbox_to_anchor=(1, 0.37), handlelength=1.2, labelspacing=0.2)
    ax.set(xlim=(0, 5.2), ylim=(0, 4.2), ylabel="Strength of mode, u")
    ax.set(xlabel=r"Learning rate × batch, $\eta n$", title="aligned start")


def draw_errors(ax: Axes, courses: Mapping[str, Course], singular_values, sigmoids) -> None:
    """How far aligned members are from the closed form at any time, at both learning rates."""
    for style, (name, label) in zip(("-", "--"), LEARNING_RATES.items(), strict=True):
        course = courses[name]
        differences = course.strengths[0] - sigmoids(course.times)
        errors = np.abs(differences / np.array(singular_values)[:, None])
        for color, error in zip(COLORS, errors, strict=True):
            ax.plot(course.times, error, style, color=color, lw=0.9)
        ax.plot([], [], "k" + style, lw=0.9, label=label)
    ax.legend(loc="upper right", handlelength=1.8, labelspacing=0.2)
    ax.set(yscale="log", xlim=(0, 5.2), ylim=(1e-6, 1), ylabel="Deviation, |Δu| / s")
    ax.set(xlabel=r"Learning rate × batch, $\eta n$", title="aligned start")


def draw_random(ax: Axes, times: np.ndarray, strengths: np.ndarray, singular_values) -> None:
    """The modes [member, mode, time] of the random members, relative to their final strengths."""
    for i, (color, s) in enumerate(zip(COLORS, singular_values, strict=True)):
        ax.plot(times, strengths[:, i].T / s, color=color, lw=0.5, alpha=0.8)
        ax.plot([], [], color=color, label=f"s = {s:g}")
    ax.legend(loc="center left", bbox_to_anchor=(0.44, 0.72), handlelength=0.7, labelspacing=0.2)
    ax.set(xlim=(0, times[-1]), ylim=(0, 1.05), ylabel="Relative strength, u / s")
    ax.set(xlabel=r"Learning rate × batch, $\eta n$", title="random start")


def draw_scaled(ax: Axes, scaled: np.ndarray, expected: Sequence[float], singular_values) -> None:
    """Half times [member, mode] in units of 1 / s, their mean with standard error, and what is expected."""
    jitter = np.linspace(-0.18, 0.18, len(scaled))
    for i, color in enumerate(COLORS):
        ax.plot(i + jitter, scaled[:, i], "o", ms=2, color=color, alpha=0.45, mew=0)
        error = scaled[:, i].std(ddof=1) / len(scaled) ** 0.5
        ax.errorbar(i, scaled[:, i].mean(), error, fmt="o", ms=4, mfc="w", color=color, capsize=2)
        ax.plot([i - 0.32, i + 0.32], 2 * [expected[i]], "k", lw=1, zorder=0)
    ax.plot([], [], "k", lw=1, label="theory")
    ax.plot([], [], "ko", ms=4, mfc="w", label="mean ± SE")
    ax.legend(loc="lower left", ncols=2, handlelength=1.2, columnspacing=1)
    ax.set_xticks(range(len(singular_values)), [f"{s:g}" for s in singular_values])
    ax.set(xlabel="Singular value, s", ylabel=r"Scaled half time, $s\,t_{1/2}$", ylim=(5, 8.5))
    ax.set_title("random start")
