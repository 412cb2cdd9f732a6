"""The figure of `speed_profiles.py`: speed profiles of two plants beside their optima."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure
from references import speed_profiles as reference

COLORS = {"point mass": "#E69F00", "with filters": "#0072B2"}  # Okabe & Ito
CM = 100  # per metre
OPTIMAL: dict[str, Any] = {"color": "k", "lw": 0.8, "ls": (0, (3, 2))}


def draw_figure(
    folder: Path,
    speeds: Mapping[str, np.ndarray],
    optimal: Mapping[str, np.ndarray],
    distances: np.ndarray,
    dt: float,
    constants: Mapping[str, float],
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `speeds`: by plant [member, distance, direction, time] (m/s).
    - `optimal`: by plant [distance, time] (m/s).
    - `distances`: in m.
    - `dt`: the time step (s).
    - `constants`: peak by mean speed of known profiles, by name.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(2, 2, figsize=(5.4, 4.3), layout="constrained")
        draw_shapes(axes[0, 0], speeds, optimal, dt)
        draw_distances(axes[0, 1], speeds["with filters"], optimal["with filters"], distances, dt)
        draw_peaks(axes[1, 0], speeds, optimal, distances)
        draw_ratios(axes[1, 1], speeds, optimal, constants)
        for letter, ax in zip("abcd", axes.flat, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "speed_profiles")
        plt.close(figure)
    return files


def prepend_rest(speeds: np.ndarray) -> np.ndarray:
    """Speeds [..., time] with that of the start, zero."""
    return np.concatenate([np.zeros_like(speeds[..., :1]), speeds], axis=-1)


def draw_shapes(
    ax: Axes, speeds: Mapping[str, np.ndarray], optimal: Mapping[str, np.ndarray], dt: float
) -> None:
    """The mean profile of each member relative to its mean speed, over all reaches."""
    n_steps = optimal["point mass"].shape[-1]
    times = dt * np.arange(n_steps + 1)
    for name, profiles_of_reaches in speeds.items():
        relative = profiles_of_reaches / profiles_of_reaches.mean(axis=-1, keepdims=True)
        profiles = prepend_rest(relative.mean(axis=(1, 2)))
        lines = ax.plot(times, profiles.T, color=COLORS[name], lw=0.8)
        lines[0].set_label(name)
        ax.plot(times, prepend_rest(optimal[name][0] / optimal[name][0].mean()), **OPTIMAL)
    ax.plot([], [], **OPTIMAL, label="optimal")
    ax.legend(loc="lower center", handlelength=1.4, labelspacing=0.25)
    ax.set(xlabel="Time (s)", ylabel="Speed / mean speed", xlim=(0, times[-1]), ylim=(0, 2))


def draw_distances(
    ax: Axes, speeds: np.ndarray, optimal: np.ndarray, distances: np.ndarray, dt: float
) -> None:
    """The mean profile of each member for each distance, of one plant."""
    times = dt * np.arange(speeds.shape[-1] + 1)
    for i, distance in enumerate(distances):
        ax.plot(times, CM * prepend_rest(speeds[:, i].mean(axis=1)).T, color=COLORS["with filters"], lw=0.8)
        ax.plot(times, CM * prepend_rest(optimal[i]), **OPTIMAL)
        ax.text(
            times[-1] * 0.52, CM * optimal[i].max() + 2, f"{CM * distance:.0f} cm", fontsize=7, ha="center"
        )
    ax.set(xlabel="Time (s)", ylabel="Speed (cm/s)", xlim=(0, times[-1]), ylim=(0, 70), title="with filters")


def draw_peaks(
    ax: Axes, speeds: Mapping[str, np.ndarray], optimal: Mapping[str, np.ndarray], distances: np.ndarray
) -> None:
    """The mean peak speed of each member over the distance, on the line of the optimum."""
    ends = np.array([0, 1.05 * distances[-1]])
    jitter = 0.002 * np.linspace(-1, 1, len(speeds["point mass"]))
    for name, profiles in speeds.items():
        slope, _ = reference.line(distances, optimal[name].max(axis=-1))
        ax.plot(CM * ends, CM * slope * ends, **OPTIMAL, zorder=0)
        peaks = profiles.max(axis=-1).mean(axis=-1)
        for shift, values in zip(jitter, peaks, strict=True):
            ax.plot(CM * (distances + shift), CM * values, "o", ms=2.6, color=COLORS[name], mew=0)
        ax.plot([], [], "o", ms=2.6, color=COLORS[name], mew=0, label=name)
    ax.plot([], [], **OPTIMAL, label="optimal")
    ax.legend(loc="upper left", handlelength=1.4, labelspacing=0.25)
    ax.set(xlabel="Distance (cm)", ylabel="Peak speed (cm/s)", xlim=(0, CM * ends[-1]), ylim=(0, 70))


def draw_ratios(
    ax: Axes,
    speeds: Mapping[str, np.ndarray],
    optimal: Mapping[str, np.ndarray],
    constants: Mapping[str, float],
) -> None:
    """Peak by mean speed of each member, over the band of the gate, and what other costs would give."""
    for at, (name, profiles) in enumerate(speeds.items()):
        best = reference.peak_by_mean(optimal[name][0])
        ax.fill_between([at - 0.35, at + 0.35], 0.98 * best, 1.02 * best, color=COLORS[name], alpha=0.2, lw=0)
        ax.plot([at - 0.35, at + 0.35], [best, best], **OPTIMAL)
        ratios = reference.peak_by_mean(profiles).mean(axis=(1, 2))
        ax.plot(at + np.linspace(-0.2, 0.2, len(ratios)), ratios, "o", ms=3, color=COLORS[name], mew=0)
    for (course, constant), (x, side) in zip(
        constants.items(), ((1.45, "right"), (-0.45, "left")), strict=True
    ):
        ax.axhline(constant, color="0.6", lw=0.6, ls=":", zorder=0)
        ax.text(x, constant + 0.006, course, ha=side, va="bottom", color="0.4", fontsize=6.5)
    ax.set_xticks(range(len(speeds)), list(speeds))
    ax.set(ylabel="Peak / mean speed", xlim=(-0.5, 1.5), ylim=(1.4, 2.0))
