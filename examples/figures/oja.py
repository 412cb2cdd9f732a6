"""The figure of `oja.py`: the weights of Hebbian units on their way to a principal component."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {"Oja": "#0072B2", "Hebb": "#D55E00", "covariance": "#009E73", "uncentred Hebb": "#CC79A7"}
WIDTHS = {"Oja": 4, "Hebb": 2.5, "covariance": 1, "uncentred Hebb": 1}  # one is to be seen below another
COMPONENT_COLORS = ("#0072B2", "#E69F00", "#56B4E9")  # Okabe & Ito
BATCH_COLORS = ("#0072B2", "#000000")
TIME_LABEL = r"Learning rate × batch, $\eta n$"


@dataclasses.dataclass(frozen=True)
class Course:
    """How the weights of some units changed.

    - `times` [time]: learning rate times the number of batches made, from 0.
    - `found`, `expected`: by unit, the weights [time, member, component] along the principal components.
    """

    times: np.ndarray
    found: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]


def draw_figure(folder: Path, courses: Mapping[str, Course]) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `courses`: by batch size, the smallest first.

    **Returns:** the files.
    """
    small = next(iter(courses.values()))
    with figure_style():
        figure, axes = plt.subplots(2, 2, figsize=(5.4, 4.4), layout="constrained")
        draw_components(axes[0, 0], small)
        draw_errors(axes[0, 1], courses)
        draw_norms(axes[1, 0], small)
        draw_cosines(axes[1, 1], small)
        for letter, ax in zip("abcd", axes.flat, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "oja")
        plt.close(figure)
    return files


def draw_band(
    ax: Axes, times: np.ndarray, values: np.ndarray, expected: np.ndarray, color: str, *, width: float = 1
) -> None:
    """What is expected, and the mean of members over their whole range [time, member]."""
    ax.fill_between(times, values.min(axis=1), values.max(axis=1), color=color, alpha=0.2, lw=0)
    ax.plot(times, expected.mean(axis=1), color=color, lw=width)
    shown = np.linspace(0, len(times) - 1, 15).round().astype(int)
    style = {"ms": 2.6, "mfc": "w", "mec": color, "mew": 0.8, "clip_on": False}
    ax.plot(times[shown], values.mean(axis=1)[shown], "o", **style)


def draw_components(ax: Axes, course: Course) -> None:
    """Weights of Oja's unit along the first components, each member's course with the sign it starts with."""
    signs = np.sign(course.found["Oja"][0])
    for i, color in enumerate(COMPONENT_COLORS):
        values, expected = (signs[:, i] * c["Oja"][..., i] for c in (course.found, course.expected))
        draw_band(ax, course.times, values, expected, color)
        ax.text(
            course.times[-1] * 1.03, (1, 0.05, -0.05)[i], f"PC{i + 1}", color=color, va="center", fontsize=7
        )
    ax.plot([], [], "k", lw=1, label="theory")
    ax.plot([], [], "ko", ms=2.6, mfc="w", mew=0.8, label="mean of members")
    ax.fill_between([], [], color="k", alpha=0.2, lw=0, label="range of members")
    ax.legend(loc="center right", handlelength=1.2, labelspacing=0.2)
    ax.set(xlim=(0, course.times[-1]), ylim=(-0.15, 1.08), xlabel=TIME_LABEL, ylabel="Weight along component")
    ax.set_title("Oja's rule")


def draw_errors(ax: Axes, courses: Mapping[str, Course]) -> None:
    """The error of Oja's unit over time, for batches of different sizes."""
    for color, (name, course) in zip(BATCH_COLORS, courses.items(), strict=True):
        squared = (course.found["Oja"] - course.expected["Oja"]) ** 2
        ax.plot(course.times, np.sqrt(squared.mean(axis=(1, 2))), color=color, lw=1, label=f"batch of {name}")
    first = next(iter(courses.values()))
    squared = (first.found["Oja"] - first.expected["Oja"]) ** 2
    half = np.sqrt(squared.mean(axis=(1, 2))) / 2
    ax.plot(first.times, half, color=BATCH_COLORS[0], lw=0.8, ls=(0, (2, 1.5)), label="half of the blue line")
    ax.legend(loc="upper right", handlelength=1.6, labelspacing=0.2)
    ax.set(xlim=(0, first.times[-1]), ylim=(0, 0.0075), xlabel=TIME_LABEL, ylabel="RMS error of weights")
    ax.set_title("Oja's rule")


def draw_norms(ax: Axes, course: Course) -> None:
    """Norms of the weights of all units."""
    for unit, color in COLORS.items():
        values, expected = (np.linalg.norm(c[unit], axis=-1) for c in (course.found, course.expected))
        draw_band(ax, course.times, values, expected, color)
        ax.plot([], [], color=color, lw=1, label=unit)
    ax.legend(loc="upper left", handlelength=1.2, labelspacing=0.2)
    ax.set(yscale="log", xlim=(0, course.times[-1]), xlabel=TIME_LABEL, ylabel=r"Norm of weights, $|w|$")
    ax.set_title("four rules")


def draw_cosines(ax: Axes, course: Course) -> None:
    """Cosines of the weights of all units with the first component; three of them have the same course."""
    for unit, color in COLORS.items():
        values, expected = (
            np.abs(c[unit][..., 0]) / np.linalg.norm(c[unit], axis=-1)
            for c in (course.found, course.expected)
        )
        draw_band(ax, course.times, values, expected, color, width=WIDTHS[unit])
    ax.text(2.5, 0.93, "Oja, Hebb, covariance", ha="center", va="top", fontsize=7)
    ax.text(2.3, 0.4, "uncentred\nHebb", color=COLORS["uncentred Hebb"], fontsize=7)
    ax.set(xlim=(0, course.times[-1]), ylim=(0, 1.05), xlabel=TIME_LABEL, ylabel="Cosine with PC1")
    ax.set_title("four rules")
