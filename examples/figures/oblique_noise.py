"""The figure of `oblique_noise.py`: noise along the readout is suppressed, by as much as the theory says."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {"large": "#0072B2", "small": "#E69F00"}  # Okabe & Ito
LABELS = {"large": r"$|w| = 1$", "small": r"$|w| = 1\,/\sqrt{N}$"}
ORTHOGONAL = "0.4"
CONTINUOUS = {"color": "#D55E00", "lw": 1, "ls": (0, (3, 1.5))}


@dataclasses.dataclass(frozen=True)
class Course:
    """How networks learned whose readouts have the same length.

    - `batches` [saved]: after how many batches their weights were saved.
    - `along`, `orthogonal` [saved, member]: y along the readout, and along a direction orthogonal to it.
    - `variances` [batch, member]: that of the output in each batch, over the squared length of the readout.
    - `expected`, `continuous` [batch]: y by the theory, and by that of continuous time, before the first
        batch and after each.
    - `expected_variances` [batch]: the variance by the theory, as often.
    """

    batches: np.ndarray
    along: np.ndarray
    orthogonal: np.ndarray
    variances: np.ndarray
    expected: np.ndarray
    continuous: np.ndarray
    expected_variances: np.ndarray


def draw_figure(
    folder: Path, courses: Mapping[str, Course], tolerance: float, last_tolerance: float
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `courses`: those of the large and of the small readout.
    - `tolerance`, `last_tolerance`: of y, relative, on its way and after the last batch.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_courses(axes[0], courses)
        draw_variances(axes[1], courses)
        draw_deviations(axes[2], courses, tolerance, last_tolerance)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "oblique_noise")
        plt.close(figure)
    return files


def draw_points(ax: Axes, batches: np.ndarray, values: np.ndarray, color: str) -> None:
    """A number of the members [saved, member] after the batches of which their weights were saved."""
    ax.plot(batches, values, "o", ms=2.6, mfc="w", mec=color, mew=0.8, clip_on=False)


def draw_courses(ax: Axes, courses: Mapping[str, Course]) -> None:
    """y along the readout and orthogonal to it, with both theories."""
    large = courses["large"]
    every = np.arange(1, len(large.expected))
    for name, course in courses.items():
        ax.plot(every, course.expected[1:], color=COLORS[name], lw=1)
        draw_points(ax, course.batches, course.along, COLORS[name])
    ax.plot(every, large.continuous[1:], **CONTINUOUS)
    ax.plot(large.batches, large.orthogonal, "o", ms=1.6, mew=0, color=ORTHOGONAL, clip_on=False)
    ax.plot([], [], "k", lw=1, label="theory")
    ax.plot([], [], **CONTINUOUS, label="continuous time")
    ax.plot([], [], "ko", ms=2.6, mfc="w", mew=0.8, label="network")
    ax.legend(loc="upper left", handlelength=1.6, labelspacing=0.2)
    last = every[-1]
    labels = (
        (large.expected[last // 4], LABELS["large"], COLORS["large"], "top"),
        (courses["small"].expected[-1] + 0.05, LABELS["small"], COLORS["small"], "bottom"),
        (0.95, r"orthogonal to $w$", ORTHOGONAL, "top"),
    )
    for y, label, color, align in labels:
        ax.text(last, float(y), label, color=color, ha="right", va=align, fontsize=7)
    ax.set(xscale="log", xlim=(0.9, 1.2 * last), ylim=(0.75, None))
    ax.set(xlabel="Batches", ylabel=r"1 − eigenvalue along readout, $y$")


def draw_variances(ax: Axes, courses: Mapping[str, Course]) -> None:
    """The variance along the readout in each batch, mean of members, with its theory."""
    n_batches = len(courses["large"].variances)
    for name, course in courses.items():
        ax.plot(np.arange(n_batches), course.variances.mean(axis=1), color=COLORS[name], lw=0.6, alpha=0.5)
        ax.plot(course.expected_variances, color=COLORS[name], lw=1)
        place = (0.55 * n_batches, course.variances[n_batches // 3 :].mean(axis=1).max())
        ax.text(*place, LABELS[name], color=COLORS[name], va="bottom", fontsize=7)
    ax.plot([], [], "k", lw=1, label="theory")
    ax.plot([], [], "k", lw=0.6, alpha=0.5, label="mean of networks")
    ax.legend(loc="lower left", handlelength=1.6, labelspacing=0.2)
    ax.set(xlim=(0, n_batches), ylim=(0, 0.32), xlabel="Batches", ylabel=r"Variance of output / $|w|^2$")


def draw_deviations(ax: Axes, courses: Mapping[str, Course], tolerance: float, last_tolerance: float) -> None:
    """How far y is from the theory, and how far the theory of continuous time is."""
    large = courses["large"]
    before, last = large.batches[-2:]
    edges, heights = [0.9, (before * last) ** 0.5, 1.2 * last], 100 * np.array([tolerance, last_tolerance])
    ax.stairs(heights, edges, baseline=-heights, fill=True, color="0.92", label="gate")
    for name, course in courses.items():
        theory = course.expected[course.batches]
        draw_points(ax, course.batches, 100 * (course.along / theory[:, None] - 1), COLORS[name])
    every = np.arange(1, len(large.expected))
    ax.plot(every, 100 * (large.continuous / large.expected - 1)[1:], **CONTINUOUS)
    ax.legend(loc="upper left", handlelength=1.2)
    ax.set(xscale="log", xlim=(0.9, 1.2 * last), ylim=(-2.4, 3.6))
    ax.set(xlabel="Batches", ylabel=r"Deviation of $y$ from theory (%)")
