"""The figure of `tiny_networks.py`: nats above the agent's, and how log odds change by choice and reward."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {(1, 1): "#0072B2", (1, 0): "#56B4E9", (0, 0): "#E69F00", (0, 1): "#D55E00"}  # Okabe & Ito
N_SHOWN = 400  # choices of each kind


def draw_figure(
    folder: Path, found: Mapping[str, Any], portraits: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `found`: by case, the nats of networks relative to the agent's, and which network is best.
    - `portraits`: by what has them, log odds, choices and rewards [session, choice].

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 5, figsize=(7.2, 2.5), layout="constrained")
        draw_nats(axes[0], found)
        for ax, (name, portrait) in zip(axes[1:], portraits.items(), strict=True):
            draw_portrait(ax, *portrait)
            ax.set_xlabel(f"Log odds,\n{name}")
        for ax in axes[2:]:
            ax.set_yticklabels([])
        axes[1].set_ylabel("Change of log odds")
        figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower right", ncols=4, markerscale=3)
        for letter, ax in zip("abcde", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "tiny_networks")
        plt.close(figure)
    return files


def draw_nats(ax: Axes, found: Mapping[str, Any]) -> None:
    """Percent above the agent, a point for each network, filled for the best on the validation sessions."""
    for place, networks in enumerate(found.values()):
        above = 100 * (networks.nats - 1)
        ax.plot(above, np.full(len(above), -place), "o", ms=4, mfc="none", color="k")
        ax.plot(above[networks.best], -place, "o", ms=4, color="k")
    ax.set_yticks(-np.arange(len(found)), [name.replace(", ", ",\n") for name in found])
    ax.axvline(0, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    ax.set(xlim=(-0.5, 150), xlabel="Nats above the agent (%)")


def draw_portrait(ax: Axes, log_odds: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
    """The change of log odds over log odds, by the choice made and whether it was paid."""
    before, change = log_odds[:, :-1], np.diff(log_odds)
    for (action, reward), color in COLORS.items():
        made = (actions[:, :-1] == action) & (rewards[:, :-1] == reward)
        label = f"choice {action}, {'paid' if reward else 'not paid'}"
        ax.plot(before[made][:N_SHOWN], change[made][:N_SHOWN], ".", ms=1.5, color=color, label=label)
    ax.axhline(0, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.set(xlim=(-4, 4), ylim=(-2.6, 2.6))
