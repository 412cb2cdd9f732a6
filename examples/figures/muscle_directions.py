"""The figure of `muscle_directions.py`: where muscles pull, where they are used, and how far both differ."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gates import Row
from popsim.analysis.figures import figure_style, save_figure
from references import muscle_directions as reference

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # Okabe & Ito
PROGRAMME: dict[str, Any] = {"color": "k", "lw": 0.9, "ls": (0, (3, 2))}
ANATOMY: dict[str, Any] = {"color": "0.55", "lw": 1.1, "ls": ":"}
COMPARED = {
    "full arm": "to programme",
    "full arm, stretched arm": "to that of stretched arm",
    "full arm, anatomy": "to anatomy",
    "four muscles": "four muscles: to programme",
    "four muscles, programme of the full arm": "to that of full arm",
}


def draw_figure(
    folder: Path,
    rows: Sequence[Row],
    activations: np.ndarray,
    arm: reference.Arm,
    directions: np.ndarray,
    torques: np.ndarray,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `rows`: numbers and gates of all networks and controls.
    - `activations`: [member, direction, muscle], of the networks with the full arm.
    - `arm`: the full arm.
    - `directions`, `torques`: of the torques asked for, in rad, and [direction, joint] in N m.

    **Returns:** the files.
    """
    least = reference.least_activation(arm, torques)
    with figure_style():
        figure = plt.figure(figsize=(7.0, 4.0), layout="constrained")
        left, right = np.asarray(figure.subfigures(1, 2, width_ratios=(1.1, 1)))
        upper, lower = np.asarray(left.subfigures(2, 1, height_ratios=(1.7, 1)))
        around, errors, curves = upper.subplots(), lower.subplots(), right.subplots(3, 2, sharex=True)
        draw_directions(around, activations, least, arm, directions)
        draw_errors(errors, rows)
        for muscle, ax in enumerate(curves.flat):
            draw_tuning(ax, muscle, activations, least, arm, directions)
        curves[1, 0].set_ylim(0, 1.25 * curves[1, 0].get_ylim()[1])  # above the curves, for the legend
        curves[1, 0].legend(loc="upper left", handlelength=1.4, fontsize=6, borderaxespad=0)
        right.supxlabel("Direction of torque, from that of its own (deg)", fontsize=8)
        right.supylabel("Activation (%)", fontsize=8)
        for letter, ax, x in (("a", around, 0), ("b", curves[0, 0], -0.25), ("c", errors, 0)):
            ax.text(x, 1.05, letter, transform=ax.transAxes, fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "muscle_directions")
        plt.close(figure)
    return files


def draw_directions(
    ax: Axes, activations: np.ndarray, least: np.ndarray, arm: reference.Arm, directions: np.ndarray
) -> None:
    """Directions of the muscles: of their torque, of the programme, and of each network."""
    around = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(around), np.sin(around), color="0.8", lw=0.7, zorder=0)
    anatomy = reference.anatomical_directions(arm)
    of_programme = reference.preferred_directions(least, directions)
    for muscle, (name, color) in enumerate(zip(reference.MUSCLES, COLORS, strict=True)):
        pulls, used = (np.array([np.cos(a[muscle]), np.sin(a[muscle])]) for a in (anatomy, of_programme))
        ax.plot(*np.outer(pulls, [0, 0.94]), color=color, lw=1.3, ls=":")
        ax.plot(*np.outer(used, [0, 0.94]), color=color, lw=1.3)
        for network in activations:
            found = reference.preferred_directions(network, directions)[muscle]
            ax.plot(np.cos(found), np.sin(found), "o", ms=3, mfc="w", mec=color, mew=0.9)
        x, y = 1.12 * used
        ax.text(x, y, name, color=color, fontsize=7, ha="left" if x > 0 else "right", va="center")
    for x, y, label in ((1.12, 0, "shoulder\nflexion"), (0, 1.1, "elbow flexion")):
        ax.text(
            x, y, label, color="0.5", fontsize=7, ha="center" if y else "left", va="bottom" if y else "center"
        )
    ax.plot([], [], ":", color="0.3", lw=1.3, label="its own torque")
    ax.plot([], [], color="0.3", lw=1.3, label="programme")
    ax.plot([], [], "o", ms=3, mfc="w", mec="0.3", mew=0.9, label="networks")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, handlelength=1.4, columnspacing=1.2)
    ax.set_aspect("equal")
    ax.set(xlim=(-1.95, 1.95), ylim=(-1.15, 1.3))
    ax.axis("off")


def draw_tuning(
    ax: Axes,
    muscle: int,
    activations: np.ndarray,
    least: np.ndarray,
    arm: reference.Arm,
    directions: np.ndarray,
) -> None:
    """Activations of a muscle over the direction of torque, from 180 degrees below its own to above it."""
    own = reference.anatomical_directions(arm)[muscle]
    turned = np.rad2deg(np.angle(np.exp(1j * (directions - own))))
    order = np.argsort(turned)
    for network in activations:
        ax.plot(turned[order], 100 * network[order, muscle], color=COLORS[muscle], lw=0.9)
    ax.plot(turned[order], 100 * least[order, muscle], **PROGRAMME, label="programme")
    ax.axvline(0, **ANATOMY, zorder=0)
    ax.set(xlim=(-180, 180), ylim=(0, None), xticks=(-180, -90, 0, 90, 180))
    ax.set_title(reference.MUSCLES[muscle], fontsize=7, color=COLORS[muscle], pad=2)


def draw_errors(ax: Axes, rows: Sequence[Row]) -> None:
    """How far the preferred directions of each network are from those that they are compared with."""
    ax.axvspan(0, rows[0].reference, color="0.92", lw=0, zorder=0)
    for at, condition in enumerate(COMPARED):
        found = [row for row in rows if row.condition == f"{condition}, mean error (deg)"]
        places = at + np.linspace(-0.3, 0.3, len(found) + 2)[1:-1]
        fill = "w" if found[0].must_fail else "k"
        ax.plot([row.value for row in found], places, "o", ms=3.4, mfc=fill, mec="k", mew=0.8)
    ax.axhline(2.5, color="0.75", lw=0.7)
    ax.text(0.3, 1.75, "gate", color="0.4", fontsize=7, va="center")
    ax.set_yticks(range(len(COMPARED)), [*COMPARED.values()])
    ax.set(
        xlim=(0, None), ylim=(len(COMPARED) - 0.4, -0.6), xlabel="Mean error of preferred directions (deg)"
    )
