"""The figure of `force_field.py`: paths in a curl field, and how they change with practice."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {"b=3": "#E69F00", "b=5": "#0072B2"}  # Okabe & Ito
CM = 100  # per metre
OPTIMAL: dict[str, Any] = {"color": "k", "lw": 0.8, "ls": (0, (3, 2))}


@dataclasses.dataclass(frozen=True)
class Course:
    """What members did in the course of learning a field; row 0 is before it.

    - `n_batches` [row]: how many batches had been made.
    - `in_field` [row, member, trial, time, 2]: hand positions (m) in the field.
    - `caught` [row, member, trial, time, 2]: hand positions (m) in catch trials, with the field off.
    - `costs` [row, member, trial]: J (m²) in the field.
    - `optimal`: by phase, "naive", "adapted" and "after-effect", the paths [trial, time, 2] (m) of the
        optimal controllers.
    - `optimum`: the lowest possible cost J (m²) in the field.
    """

    n_batches: np.ndarray
    in_field: np.ndarray
    caught: np.ndarray
    costs: np.ndarray
    optimal: Mapping[str, np.ndarray]
    optimum: float


def draw_figure(
    folder: Path,
    courses: Mapping[str, Course],
    targets: np.ndarray,
    deviations: Callable[[np.ndarray], np.ndarray],
    highest: float,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `courses`: by name of the field; paths are shown of the last.
    - `targets`: [trial, 2] (m).
    - `deviations`: from paths [..., trial, time, 2] (m) to their mean deviation [...] (cm).
    - `highest`: the highest cost relative to the optimum that passes.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplot_mosaic(
            [["naive", "adapted", "caught"], ["curve", "curve", "cost"]],
            figsize=(6.6, 4.5),
            height_ratios=[1.15, 1],
            layout="constrained",
        )
        name, course = [*courses.items()][-1]
        phases = {
            "naive": ("first exposure", course.in_field[0], course.optimal["naive"]),
            "adapted": ("adapted", course.in_field[-1], course.optimal["adapted"]),
            "caught": ("catch trials: field off", course.caught[-1], course.optimal["after-effect"]),
        }
        for at, (title, paths, optimal) in phases.items():
            draw_paths(axes[at], paths, optimal, targets, COLORS[name])
            axes[at].set_title(title)
        axes["naive"].plot([], [], color=COLORS[name], label=f"networks, {with_unit(name)}")
        axes["naive"].plot([], [], **OPTIMAL, label="optimal")
        axes["naive"].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, handlelength=1.4)
        draw_curves(axes["curve"], courses, deviations)
        draw_costs(axes["cost"], courses, highest)
        for letter, ax in zip("abcde", axes.values(), strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "force_field")
        plt.close(figure)
    return files


def with_unit(name: str) -> str:
    """The name of a field with its unit."""
    return name.replace("=", " = ") + " N s/m"


def draw_paths(ax: Axes, paths: np.ndarray, optimal: np.ndarray, targets: np.ndarray, color: str) -> None:
    """Paths [member, trial, time, 2] of all members over the optimal ones [trial, time, 2] (m)."""
    for member in paths:
        ax.plot(*CM * member.transpose(2, 1, 0), color=color, lw=0.6)
    ax.plot(*CM * optimal.transpose(2, 1, 0), **OPTIMAL, zorder=3)
    ax.scatter(*CM * targets.T, s=22, facecolors="none", edgecolors="0.5", lw=0.7, zorder=0)
    ticks, limits = [-10, 0, 10], (-12.5, 12.5)
    ax.set(xlabel="x (cm)", xticks=ticks, yticks=ticks, xlim=limits, ylim=limits, aspect="equal")
    ax.set_ylabel("y (cm)", labelpad=0)


def draw_curves(
    ax: Axes, courses: Mapping[str, Course], deviations: Callable[[np.ndarray], np.ndarray]
) -> None:
    """The deviation of all members after each batch, in the field and in catch trials."""
    for name, course in courses.items():
        first, last = course.n_batches[[0, -1]]
        ax.plot(course.n_batches, deviations(course.in_field), color=COLORS[name], lw=0.7)
        ax.plot(course.n_batches, deviations(course.caught), color=COLORS[name], lw=0.5, alpha=0.55)
        for phase, at in {"naive": first, "adapted": last, "after-effect": last}.items():
            ax.plot(at, deviations(course.optimal[phase]), "kD", ms=3.5, mfc="w", clip_on=False, zorder=4)
    ax.plot([], [], color="0.2", lw=1.2, label="in the field")
    ax.plot([], [], color="0.65", lw=0.8, label="catch trials")
    ax.plot([], [], "kD", ms=3.5, mfc="w", label="optimal")
    ax.legend(loc="lower right", ncols=3, handlelength=1.4)
    ax.axhline(0, color="0.8", lw=0.6, zorder=0)
    ax.set(xlabel="Batches in the field", ylabel="Deviation to the left (cm)")
    ax.set_xlim(0, max(course.n_batches[-1] for course in courses.values()))


def draw_costs(ax: Axes, courses: Mapping[str, Course], highest: float) -> None:
    """The cost of all members relative to the optimum in the field."""
    for name, course in courses.items():
        excess = course.costs.mean(axis=-1) / course.optimum - 1
        ax.plot(course.n_batches, excess, color=COLORS[name], lw=0.6)
        ax.plot([], [], color=COLORS[name], label=with_unit(name))
    last = max(course.n_batches[-1] for course in courses.values())
    ax.axhline(highest - 1, color="0.5", lw=0.7, ls=":")
    ax.text(last, highest - 1, "gate", ha="right", va="bottom", color="0.4", fontsize=7)
    ax.set(xlabel="Batches in the field", ylabel="Excess cost, J / J* − 1", yscale="log", xlim=(0, last))
    ax.legend(loc="upper right", handlelength=1.2)
