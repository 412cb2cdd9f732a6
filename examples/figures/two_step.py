"""The figure of `two_step.py`: probabilities of staying, their interaction, and model-based weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure
from references.two_step import Agent, Sessions, interaction, stay_probabilities

COLORS = {"common": "#0072B2", "rare": "#D55E00"}  # Okabe & Ito


def draw_figure(
    folder: Path, sessions: Mapping[str, Sequence[Sessions]], fits: Mapping[str, Sequence[Agent]]
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `sessions`: by kind, the choices of each member.
    - `fits`: by kind, the agent that was fitted to each.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(
            1, 4, figsize=(7.0, 2.4), width_ratios=(1, 1, 1, 1.6), layout="constrained"
        )
        agents = [kind for kind in sessions if kind.startswith("agent")]
        shown = {"networks": "networks", "model-free agent": agents[0], "model-based agent": agents[-1]}
        for ax, (title, kind) in zip(axes, shown.items(), strict=False):
            draw_staying(ax, sessions[kind], title)
        axes[0].set_ylabel("Probability of staying")
        axes[0].legend(handlelength=1, labelspacing=0.2)
        for ax in axes[1:3]:
            ax.set_yticklabels([])
        draw_fits(axes[3], sessions, fits)
        for letter, ax in zip("abcd", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "two_step")
        plt.close(figure)
    return files


def draw_staying(ax: Axes, members: Sequence[Sessions], title: str) -> None:
    """The probability of staying by reward and transition: bars for the mean, points for members."""
    staying = np.stack([stay_probabilities(sessions) for sessions in members])
    for offset, (column, name) in zip((-0.2, 0.2), ((1, "common"), (0, "rare")), strict=True):
        for place, paid in enumerate((1, 0)):
            values, x = staying[:, paid, column], place + offset
            ax.bar(x, values.mean(), 0.36, color=COLORS[name], label=name if place == 0 else None)
            if len(values) > 1:
                spread = x + 0.08 * (np.arange(len(values)) - (len(values) - 1) / 2)
                ax.plot(spread, values, "o", ms=2, color="k")
    ax.set(ylim=(0, 1.35), yticks=[0, 0.5, 1], xlabel=title)
    ax.set_xticks([0, 1], ["paid", "not"])


def draw_fits(
    ax: Axes, sessions: Mapping[str, Sequence[Sessions]], fits: Mapping[str, Sequence[Agent]]
) -> None:
    """The interaction of reward and transition over the fitted weight, which has no meaning if untrained."""
    styles = {"networks": ("o", "#009E73"), "best player": ("D", "#CC79A7")}
    for name, members in sessions.items():
        if name == "untrained":
            continue
        marker, color = styles.get(name, ("^", "k"))
        label = name if name in styles else None
        weights = [agent.weight for agent in fits[name]]
        ax.plot(
            weights, [interaction(x) for x in members], marker, ms=4, mfc="none", color=color, label=label
        )
    ax.plot([], [], "^", ms=4, mfc="none", color="k", label="agents")
    for draw in (ax.axvline, ax.axhline):
        draw(0.5, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.legend(loc="upper left", handlelength=1, labelspacing=0.2)
    ax.set(xlim=(-0.05, 1.05), ylim=(-0.1, 1.6), xlabel="Model-based weight", ylabel="Interaction")
