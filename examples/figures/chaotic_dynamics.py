"""The figure of `chaotic_dynamics.py`: attractors, predictions, exponents and divergences."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {0.1: "#0072B2", 0.0: "#D55E00", 1.0: "#009E73"}  # Okabe & Ito, by strength
SYSTEM, N_DRAWN, N_PREDICTED = "k", 2500, 350  # steps


@dataclasses.dataclass(frozen=True)
class FreeRuns:
    """What one network does freely.

    - `strength`, `seed`: of the forcing with which it learned, and of its weights.
    - `runs` [run, time, 3]: its states in standard deviations of the system.
    - `exponent`: the largest of Lyapunov, the mean over runs, per time of the system.
    - `divergence`: of the states that it visits from those of the system, in nats.
    - `prediction`: how long it follows the system, in Lyapunov times.
    """

    strength: float
    seed: int
    runs: np.ndarray
    exponent: float
    divergence: float
    prediction: float


def draw_figure(
    folder: Path, found: Sequence[FreeRuns], true: np.ndarray, itself: float, exponent: float, dt: float
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `found`: the networks.
    - `true`: orbits of the system [run, time, 3], from the same starts.
    - `itself`: the divergence of other orbits of the system from these.
    - `exponent`: the largest of the system.
    - `dt`: the time step.

    **Returns:** the files.
    """
    first = {network.strength: network for network in reversed(found)}  # of each strength
    with figure_style():
        figure, axes = plt.subplots(2, 3, figsize=(7.0, 4.2), layout="constrained")
        draw_orbit(axes[0, 0], true[0], SYSTEM, "system")
        for ax, strength in zip(axes[0, 1:], COLORS, strict=False):
            draw_orbit(ax, first[strength].runs[0], COLORS[strength], f"forcing {strength:g}")
        draw_prediction(axes[1, 0], [first[0.1], first[0.0]], true[0], exponent * dt)
        draw_exponents(axes[1, 1], found, exponent)
        draw_divergences(axes[1, 2], found, itself)
        for letter, ax in zip("abcdef", axes.flat, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "chaotic_dynamics")
        plt.close(figure)
    return files


def draw_orbit(ax: Axes, orbit: np.ndarray, color: str, title: str) -> None:
    """An orbit in the plane of the first and the last coordinate."""
    ax.plot(orbit[:N_DRAWN, 0], orbit[:N_DRAWN, 2], color=color, lw=0.4)
    ax.set(xlim=(-2.7, 2.7), ylim=(-2.9, 2.9), xlabel="x (SD)", ylabel="z (SD)")
    ax.set_title(title, fontsize=8)


def draw_prediction(ax: Axes, networks: Sequence[FreeRuns], true: np.ndarray, per_step: float) -> None:
    """The first coordinate of the system and of networks that start from its state."""
    times = np.arange(N_PREDICTED) * per_step
    ax.plot(times, true[1 : N_PREDICTED + 1, 0], color=SYSTEM, lw=1.6, label="system")
    for network in networks:
        label = f"forcing {network.strength:g}"
        ax.plot(times, network.runs[0, :N_PREDICTED, 0], color=COLORS[network.strength], lw=0.8, label=label)
    ax.set(xlim=(0, times[-1]), ylim=(-2.7, 4.6), xlabel="Time (Lyapunov times)", ylabel="x (SD)")
    ax.legend(loc="upper left", ncols=1, handlelength=1.2, labelspacing=0.2)


def draw_exponents(ax: Axes, found: Sequence[FreeRuns], exponent: float) -> None:
    """The largest exponent of each network, and the gate around that of the system."""
    ax.axhspan(0.85 * exponent, 1.15 * exponent, color="0.9", lw=0)
    ax.axhline(exponent, color=SYSTEM, lw=0.8)
    draw_points(ax, found, [network.exponent for network in found])
    ax.set(ylim=(None, 1.2), ylabel="Largest exponent")


def draw_divergences(ax: Axes, found: Sequence[FreeRuns], itself: float) -> None:
    """The divergence of each network, and of the system from itself."""
    ax.axhline(itself, color=SYSTEM, lw=0.8)
    draw_points(ax, found, [network.divergence for network in found])
    ax.set(yscale="log", ylabel="Divergence of states (nats)")


def draw_points(ax: Axes, found: Sequence[FreeRuns], values: Sequence[float]) -> None:
    """A number of each network, by strength."""
    strengths = sorted(COLORS)
    for network, value in zip(found, values, strict=True):
        place = strengths.index(network.strength) + 0.12 * (network.seed - 1)
        ax.plot(place, value, "o", ms=4, mfc="w", mec=COLORS[network.strength], mew=0.9, clip_on=False)
    ax.set(xlim=(-0.5, 2.5), xticks=range(3), xticklabels=[f"{x:g}" for x in strengths], xlabel="Forcing")
