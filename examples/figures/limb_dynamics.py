"""The figure of `limb_dynamics.py`: answers to loads, their ratios between the joints, and their costs."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gates import Row
from popsim.analysis.figures import figure_style, save_figure
from references.limb_dynamics import EARLY_STEPS, Answer, Hold

JOINTS = {"shoulder": "#D55E00", "elbow": "#0072B2"}  # Okabe & Ito
LIMBS = {"arm26": "#009E73", "heavier forearm": "#CC79A7"}
OPTIMAL: dict[str, Any] = {"color": "k", "lw": 0.9, "ls": (0, (3, 2))}
BY_JOINT: dict[str, Any] = {"color": "0.55", "lw": 1.1, "ls": ":"}
LABELS_AT = {"shoulder": (248, 0.53), "elbow": (165, 1.1)}  # ms, deg
MS = 1000  # per second


@dataclasses.dataclass(frozen=True)
class Answers:
    """Answers in one limb: of the best controller, of one joint by joint, and of networks.

    The first load of each turns the elbow alone.
    """

    optimum: Answer
    by_joint: Answer
    networks: Sequence[Answer]


def draw_figure(folder: Path, rows: Sequence[Row], answers: Answers, hold: Hold) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `rows`: numbers and gates of all networks and controls.
    - `answers`: those in the first limb.
    - `hold`: the trial.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(2, 2, figsize=(5.8, 4.4), layout="constrained", width_ratios=(1, 1.1))
        draw_commands(axes[0, 0], answers, hold)
        draw_angles(axes[1, 0], answers, hold)
        draw_ratios(axes[0, 1], rows)
        draw_costs(axes[1, 1], rows)
        for letter, ax in zip("abcd", axes.flat, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "limb_dynamics")
        plt.close(figure)
    return files


def draw_commands(ax: Axes, answers: Answers, hold: Hold) -> None:
    """Torques against the load that turns the elbow alone; joint by joint only until the early steps end."""
    times = MS * hold.dt * (np.arange(hold.n_steps + 1) - hold.onset)
    first = hold.onset + hold.delay + 1
    ax.axvspan(times[first], times[first + EARLY_STEPS], color="0.92", lw=0)
    ax.text(times[first] + 3, -0.38, "early", color="0.4", fontsize=7)
    for joint, (name, color) in enumerate(JOINTS.items()):
        for number, network in enumerate(answers.networks):
            label = "_" if number else f"{name}, networks"
            ax.stairs(-network.commands[0, :, joint], times, baseline=None, color=color, lw=0.9, label=label)
    for joint in range(len(JOINTS)):
        label = "_" if joint else "best controller"
        ax.stairs(-answers.optimum.commands[0, :, joint], times, baseline=None, **OPTIMAL, label=label)
    until, label = first + EARLY_STEPS, "shoulder, joint by joint"
    ax.stairs(
        -answers.by_joint.commands[0, :until, 0], times[: until + 1], baseline=None, **BY_JOINT, label=label
    )
    ax.set(
        xlim=(-50, 250), ylim=(-0.5, 3.4), xlabel="Time from load (ms)", ylabel="Torque against load (N m)"
    )
    ax.legend(loc="upper right", fontsize=6, handlelength=1.6, labelspacing=0.2)


def draw_angles(ax: Axes, answers: Answers, hold: Hold) -> None:
    """How far both joints turn under that load."""
    times = MS * hold.dt * (np.arange(hold.n_steps) + 1 - hold.onset)
    answered = MS * hold.dt * (hold.delay + 1)
    ax.axvline(answered, color="0.75", lw=0.8)
    ax.text(answered - 4, 1.35, "first answer", color="0.4", fontsize=7, ha="right")
    for joint, (name, color) in enumerate(JOINTS.items()):
        for network in answers.networks:
            ax.plot(times, np.rad2deg(network.angles[0, :, joint]), color=color, lw=0.9)
        ax.plot(times, np.rad2deg(answers.optimum.angles[0, :, joint]), **OPTIMAL)
        ax.text(*LABELS_AT[name], name, color=color, ha="right", fontsize=7)
    ax.set(xlim=(-50, 250), ylim=(-0.2, 1.5), xlabel="Time from load (ms)", ylabel="Angle from posture (deg)")


def rows_named(rows: Sequence[Row], condition: str) -> list[Row]:
    """The rows of a condition."""
    return [row for row in rows if row.condition == condition]


def draw_ratios(ax: Axes, rows: Sequence[Row]) -> None:
    """Ratios of early commands of networks and controls, beside the best controller and the gate."""
    names = ("shoulder / elbow", "elbow / shoulder")
    for at, (name, limb) in enumerate((name, limb) for name in names for limb in LIMBS):
        of_networks = rows_named(rows, f"{limb}, {name}")
        best, gate = of_networks[0].reference, of_networks[0].gate or (np.nan, np.nan)
        ax.fill_between([at - 0.4, at + 0.4], best * gate[0], best * gate[1], color="0.92", lw=0)
        ax.plot([at - 0.4, at + 0.4], [best, best], **OPTIMAL)
        kinds = {
            f"{limb}, {name}": dict(marker="o", mfc=LIMBS[limb], mec=LIMBS[limb]),
            f"{limb}, learned the other, {name}": dict(marker="o", mfc="none", mec=other_color(limb)),
            f"{limb}, joint by joint, {name}": dict(marker="x", mec="0.4"),
            f"{limb}, inertia alone, {name}": dict(marker="+", mec="0.4", ms=6),
        }
        for condition, style in kinds.items():
            found = [row.value for row in rows_named(rows, condition)]
            places = at + np.linspace(-0.2, 0.2, len(found) + 2)[1:-1]
            ax.plot(places, found, ls="", **{"ms": 4, "mew": 0.9} | style)
    label_ratios(ax)


def other_color(limb: str) -> str:
    """The colour of the limb that is not this one."""
    return next(color for name, color in LIMBS.items() if name != limb)


def label_ratios(ax: Axes) -> None:
    """Axes and legend of the ratios."""
    for limb, color in LIMBS.items():
        ax.plot([], [], "o", ms=4, color=color, label=f"trained on {limb}")
    ax.plot([], [], "o", ms=4, mfc="none", mec="0.4", mew=0.9, label="tested on the other")
    ax.plot([], [], "+", ms=6, mec="0.4", mew=0.9, label="inertia alone")
    ax.plot([], [], "x", ms=4, mec="0.4", mew=0.9, label="joint by joint")
    ax.set_xticks(
        [0.5, 2.5], ["shoulder / elbow,\nload turns elbow", "elbow / shoulder,\nload turns shoulder"]
    )
    ax.set(ylim=(-0.06, 1.8), xlim=(-0.6, 3.6), ylabel="Ratio of early torques")
    ax.legend(loc="upper right", fontsize=6, labelspacing=0.2, handlelength=1.0)


def draw_costs(ax: Axes, rows: Sequence[Row]) -> None:
    """Costs of networks in both limbs, relative to the best controller."""
    kinds = {"": "own limb", ", learned the other": "other limb", ", untrained": "untrained"}
    gate = rows_named(rows, f"{next(iter(LIMBS))}, J / J*")[0].gate or (np.nan, np.nan)
    ax.axhspan(*gate, color="0.85", lw=0)
    ax.axhline(1, **OPTIMAL)
    for at, kind in enumerate(kinds):
        for shift, limb in zip((-0.2, 0.2), LIMBS, strict=True):
            found = rows_named(rows, f"{limb}{kind}, J / J*")
            color = other_color(limb) if kind == ", learned the other" else LIMBS[limb]
            places = at + shift + np.linspace(-0.1, 0.1, len(found) + 2)[1:-1]
            fill = "none" if kind else color
            ratios = [row.ratio for row in found]
            ax.plot(places, ratios, "o", ms=4, mew=0.9, mfc=fill, mec=color)
    ax.set_xticks(range(len(kinds)), [*kinds.values()])
    own = [row.ratio for limb in LIMBS for row in rows_named(rows, f"{limb}, J / J*")]
    ax.text(0, 1.4, f"{min(own):.3f}–{max(own):.3f}", ha="center", fontsize=7)
    ax.set(yscale="log", xlim=(-0.5, 2.5), ylabel="Cost relative to\nbest controller, J / J*")
    ax.set_yticks([1, 10, 100], ["1", "10", "100"])
