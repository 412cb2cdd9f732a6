"""The figure of `lqr_reaching.py`: hand paths, speeds and costs of trained networks beside the optimum."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gates import Row

WIDTH = 3.5  # inches: one column
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 7,
    "axes.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
}
COLORS = {"clean": "#0072B2", "noisy": "#E69F00", "delayed": "#009E73"}  # Okabe & Ito
CM = 100  # per metre
OPTIMAL: dict[str, Any] = {"color": "k", "lw": 0.7, "ls": (0, (3, 3))}
LABELS = {
    "clean": "clean",
    "noisy": "noisy\n(force 0.5 N)",
    "delayed": "delayed\n(+ noisy senses, 50 ms)",
}
N_NOISY_PATHS = 20  # of each target


def draw_figure(
    folder: Path, rows: Sequence[Row], hands: Mapping, targets: np.ndarray, optimum: np.ndarray, dt: float
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `rows`: costs and gates, of which those of the conditions in `hands` are drawn.
    - `hands`: by condition, `position` and `velocity` [member, trial, time, 2] (m, m/s) of the hand; the
        trials of a target follow each other.
    - `targets`: [target, 2] (m).
    - `optimum`: position and velocity [target, time, 4] of the optimal reaches.
    - `dt`: the time step (s).

    **Returns:** the files.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplot_mosaic(
            [["paths", "speeds"], ["ratios", "ratios"]],
            figsize=(WIDTH, WIDTH),
            height_ratios=[1.1, 1],
            layout="constrained",
        )
        simplest, hardest = [*hands][0], [*hands][-1]
        extremes = {name: hands[name].position[0] for name in (simplest, hardest)}
        draw_paths(axes["paths"], extremes, targets, optimum)
        speeds = {name: mean_speeds(hand.velocity, targets) for name, hand in hands.items()}
        draw_speeds(axes["speeds"], speeds, mean_speeds(optimum[None, ..., 2:], targets)[0], dt)
        draw_ratios(axes["ratios"], {name: [r for r in rows if r.condition == name] for name in hands})
        for letter, ax in zip("abc", axes.values(), strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"lqr_reaching.{suffix}" for suffix in ("png", "pdf")]
        for file in files:
            figure.savefig(file, dpi=300)
        plt.close(figure)
    return files


def mean_speeds(velocities: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Mean velocity toward the target [member, time] (m/s) of velocities [member, trial, time, 2].

    Noise does not bias it, as it does the tangential speed.
    """
    toward = targets / np.linalg.norm(targets, axis=1, keepdims=True)
    toward = np.repeat(toward, velocities.shape[1] // len(targets), axis=0)
    return np.mean(np.sum(velocities * toward[:, None], axis=-1), axis=1)


def draw_paths(ax: Axes, positions: Mapping, targets: np.ndarray, optimum: np.ndarray) -> None:
    """Paths [trial, time, 2] of one member by condition, of each target `N_NOISY_PATHS` at most."""
    for name, paths in positions.items():
        by_target = paths.reshape(len(targets), -1, *paths.shape[1:])[:, :N_NOISY_PATHS]
        shown = CM * by_target.reshape(-1, *paths.shape[1:])
        width = 1.4 if by_target.shape[1] == 1 else 0.3
        ax.plot(*shown.transpose(2, 1, 0), color=COLORS[name], lw=width, zorder=1 + width)
    ax.plot(*CM * optimum[..., :2].transpose(2, 1, 0), **OPTIMAL, zorder=3)
    ax.scatter(*CM * targets.T, s=26, facecolors="none", edgecolors="0.5", lw=0.7, zorder=0)
    ticks = [-10, 0, 10]
    ax.set(xlabel="x (cm)", ylabel="y (cm)", xticks=ticks, yticks=ticks, aspect="equal", anchor="N")


def draw_speeds(ax: Axes, speeds: Mapping, optimum: np.ndarray, dt: float) -> None:
    """Mean speed profiles [member, time] of each condition, and the optimal one [time]."""
    times = dt * np.arange(optimum.size + 1)
    for name, profiles in speeds.items():
        lines = ax.plot(times, CM * np.pad(profiles, ((0, 0), (1, 0))).T, color=COLORS[name], lw=0.9)
        lines[0].set_label(name)
    ax.plot(times, CM * np.pad(optimum, (1, 0)), **OPTIMAL, label="optimal")
    ax.set(xlabel="Time (s)", ylabel="Speed to target (cm/s)", xlim=(0, times[-1]), ylim=(0, 25))
    ax.legend(loc="lower center", handlelength=1.6, labelspacing=0.25)


def draw_ratios(ax: Axes, rows: Mapping[str, Sequence[Row]]) -> None:
    """Each member's cost relative to the optimum, with standard error, over the band of the gate."""
    for at, (name, of_condition) in enumerate(rows.items()):
        low, high = next(row.gate for row in of_condition if row.gate is not None)
        ax.fill_between([at - 0.38, at + 0.38], low, high, color=COLORS[name], alpha=0.15, lw=0)
        ax.text(at, high, "gate", ha="center", va="bottom", color="0.3", fontsize=6)
        members = [row for row in of_condition if row.member != "mean"]
        places = at + np.linspace(-0.2, 0.2, len(members))
        ratios, errors = [row.ratio for row in members], [row.error for row in members]
        ax.errorbar(places, ratios, errors, fmt="o", ms=2.5, lw=0.8, color=COLORS[name])
    ax.axhline(1, **OPTIMAL, zorder=0)
    ax.set_xticks(range(len(rows)), [LABELS[name] for name in rows])
    ax.set(ylabel="Cost relative to\noptimum, J / J*", xlim=(-0.5, len(rows) - 0.5))
