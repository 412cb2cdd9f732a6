"""The figure of `expected_perturbation.py`: commands under pushes, by what the cue tells, and their costs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gates import Row
from popsim.analysis.figures import figure_style, save_figure
from references.expected_perturbation import CHANCES, Answer, Hold, Pushes, early_commands

KINDS = {"early": "#0072B2", "late": "#D55E00", "untrained": "0.5"}  # Okabe & Ito
LABELS = {"early": "felt after 20 ms", "late": "felt after 70 ms", "untrained": "untrained"}
OPTIMAL: dict[str, Any] = {"color": "k", "lw": 0.9, "ls": (0, (3, 2))}
SHOWN_ONSET = 27
MS = 1000  # per second


def draw_figure(
    folder: Path,
    rows: Sequence[Row],
    answers: Mapping[str, Sequence[Answer]],
    prepared: Mapping[str, np.ndarray],
    hold: Hold,
    pushes: Pushes,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `rows`: numbers and gates of all networks and controls.
    - `answers`: those of the kinds of networks, of the "optimum", and of the one "told the likelier side".
    - `prepared`: by kind, how the chances lie in the preparation [member, chance].

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 4, figsize=(9.2, 2.3), layout="constrained")
        draw_commands(axes[0], answers, hold, pushes)
        draw_early(axes[1], answers, hold, pushes)
        draw_costs(axes[2], rows)
        draw_preparation(axes[3], prepared)
        for letter, ax in zip("abcd", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "expected_perturbation")
        plt.close(figure)
    return files


def draw_commands(ax: Axes, answers: Mapping[str, Sequence[Answer]], hold: Hold, pushes: Pushes) -> None:
    """Commands of networks that feel early, and of the optimum, under the same push to the right."""
    times = MS * hold.dt * (np.arange(hold.n_steps + 1) - SHOWN_ONSET)
    felt, seen = (MS * hold.dt * (steps + 1) for steps in (hold.early, hold.late))
    ax.axvspan(felt, seen, color="0.92", lw=0)
    ax.text((felt + seen) / 2, 3.5, "felt,\nnot\nseen", color="0.4", fontsize=6, ha="center", va="top")
    colors = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(CHANCES) - 1))
    for chance, color in list(zip(CHANCES[1:], colors, strict=True))[::-1]:
        is_shown = (pushes.chance == chance) & (pushes.side > 0) & (pushes.onset == SHOWN_ONSET)
        for number, network in enumerate(answers["early"]):
            label = "_" if number else f"{100 * chance:.0f} %"
            ax.stairs(-network.commands[is_shown][0], times, baseline=None, color=color, lw=0.9, label=label)
        ax.stairs(-answers["optimum"][0].commands[is_shown][0], times, baseline=None, **OPTIMAL)
    ax.plot([], [], **OPTIMAL, label="optimum")
    ax.set(xlim=(-40, 220), ylim=(-0.7, 3.6), xlabel="Time from push (ms)", ylabel="Force against push (N)")
    ax.legend(
        loc="upper right", fontsize=6, handlelength=1.4, labelspacing=0.2, title="told", title_fontsize=6
    )


def draw_early(ax: Axes, answers: Mapping[str, Sequence[Answer]], hold: Hold, pushes: Pushes) -> None:
    """Early commands over the chance that is told."""
    percent = 100 * np.array(CHANCES)
    for kind, color in KINDS.items():
        for number, network in enumerate(answers[kind]):
            label = "_" if number else LABELS[kind]
            early = -early_commands(hold, pushes, network.commands)
            ax.plot(percent, early, "o-", ms=3, lw=0.9, color=color, label=label)
    for name, style in {
        "optimum": OPTIMAL,
        "told the likelier side": dict(color="k", ls="", marker="x"),
    }.items():
        early = -early_commands(hold, pushes, answers[name][0].commands)
        ax.plot(percent, early, ms=4, **style, label=name)
    ax.set(xlabel="Told chance of push to right (%)", ylabel="Early force to the left (N)")
    ax.set(ylim=(-0.8, 1.7), yticks=[-0.5, 0, 0.5])
    ax.set_xticks(percent)
    ax.legend(loc="upper left", fontsize=6, handlelength=1.4, labelspacing=0.2)


def draw_costs(ax: Axes, rows: Sequence[Row]) -> None:
    """Costs relative to the best controller that feels the push early."""
    kinds = {
        "early": "felt after 20 ms",
        "felt after 30 ms": "felt after 30 ms",
        "foresees nothing": "foresees nothing",
        "told the likelier side alone": "told the likelier side",
        "takes the likelier side for certain": "takes it for certain",
        "late, as if early": "felt after 70 ms",
        "without the cue": "without the cue",
        "early, told another chance": "told another chance",
        "untrained": "untrained",
    }
    colors = {"early": KINDS["early"], "late, as if early": KINDS["late"]}
    costs = {kind: [row for row in rows if row.condition == f"{kind}, J / J*"] for kind in kinds}
    gate = costs["early"][0].gate or (np.nan, np.nan)
    ax.axvspan(0.1, 100 * (gate[1] - 1), color="0.9", lw=0)
    for at, (kind, found) in enumerate(costs.items()):
        places = at + np.linspace(-0.2, 0.2, len(found) + 2)[1:-1]
        excess = [100 * (row.ratio - 1) for row in found]
        ax.plot(excess, places, "o" if found[0].member else "x", ms=3.5, color=colors.get(kind, "0.4"))
    ax.set_yticks(range(len(kinds)), [*kinds.values()], fontsize=6)
    ax.set(xscale="log", ylim=(len(kinds) - 0.5, -0.5), xlim=(0.1, 3e5), xlabel="Cost above optimum (%)")
    ax.set_xticks([0.1, 1, 10, 100, 1e4], ["0.1", "1", "10", "100", "10,000"])
    ax.minorticks_off()


def draw_preparation(ax: Axes, prepared: Mapping[str, np.ndarray]) -> None:
    """Where the chances lie on the way from the first to the last, before any push."""
    ax.plot([0, 100], [0, 1], **OPTIMAL, label="line")
    for kind, color in KINDS.items():
        for number, projections in enumerate(prepared[kind]):
            label = "_" if number else LABELS[kind]
            ax.plot(100 * np.array(CHANCES), projections, "o-", ms=3, lw=0.9, color=color, label=label)
    ax.set(xlabel="Told chance of push to right (%)", ylabel="Preparation, projected")
    ax.set_xticks(100 * np.array(CHANCES))
    ax.legend(loc="upper left", fontsize=6, handlelength=1.4, labelspacing=0.2)
