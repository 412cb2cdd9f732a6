"""The figure of `inertial_anisotropy.py`: the arm, and how a force accelerates its hand."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure
from references.inertial_anisotropy import LIMBS

COLORS = {"Li & Todorov": "#0072B2", "MotorNet": "#E69F00"}  # Okabe & Ito
MARKERS = {"": ("o", 4.5), "chain": ("x", 3.5), "muscles": ("+", 5.0)}


def draw_figure(
    folder: Path,
    forces: np.ndarray,
    arms: Mapping[str, tuple[np.ndarray, np.ndarray]],
    shoulder: float,
    elbow: float,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `forces`: in N, with axes (direction, space).
    - `arms`: by name, the accelerations (m/s²) of the hand under these forces, and the formula's mobility.
    - `shoulder`, `elbow`: the joint angles in rad.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 2, figsize=(6.0, 2.9), layout="constrained", width_ratios=(1, 1.5))
        draw_limbs(axes[0], shoulder, elbow)
        draw_accelerations(axes[1], forces, arms)
        for letter, ax in zip("ab", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "inertial_anisotropy")
        plt.close(figure)
    return files


def draw_limbs(ax: Axes, shoulder: float, elbow: float) -> None:
    """Both arms in their posture."""
    for name, limb in LIMBS.items():
        angles = np.array([shoulder, shoulder + elbow])
        steps = np.array(limb["l"])[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        joints = np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])
        ax.plot(*joints.T, "-o", color=COLORS[name], ms=3, lw=1.5, label=name)
    ax.set_aspect("equal")
    ax.set(xlabel="x (m)", ylabel="y (m)", xlim=(-0.12, 0.32), ylim=(-0.05, 0.55))
    ax.legend(loc="upper right", handlelength=1.2, title="shoulder 45°, elbow 90°", title_fontsize=7)


def draw_accelerations(
    ax: Axes, forces: np.ndarray, arms: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> None:
    """Accelerations under 1 N in all directions, over the ellipses of the formula."""
    turns = np.linspace(0, 2 * np.pi, 200)
    for name, (accelerations, mobility) in arms.items():
        limb, _, kind = name.partition(", ")
        if not kind:
            around = np.stack([np.cos(turns), np.sin(turns)], axis=1) @ mobility.T
            ax.plot(*around.T, color=COLORS[limb], lw=0.8)
        marker, size = MARKERS[kind]
        inside = "w" if marker == "o" else None
        ax.plot(*accelerations.T, marker, color=COLORS[limb], ms=size, mew=0.7, mfc=inside)
    for kind, (marker, size) in MARKERS.items():
        inside = "w" if marker == "o" else None
        label = {"": "two-link arm", "chain": "chain", "muscles": "with muscles"}[kind]
        ax.plot([], [], marker, color="0.3", ms=size, mew=0.7, label=label, mfc=inside)
    ax.plot([], [], color="0.3", lw=0.8, label="J M⁻¹ Jᵀ f")
    forearm = np.deg2rad(135)
    ax.plot(
        *np.outer([np.cos(forearm), np.sin(forearm)], [-2.6, 2.6]), color="0.75", lw=0.8, ls=":", zorder=0
    )
    ax.text(-1.72, 1.9, "forearm", color="0.5", fontsize=7)
    ax.set_aspect("equal")
    ax.set(xlim=(-2.6, 4.6), ylim=(-2.6, 2.6), xlabel="Acceleration in x (m/s²)", ylabel="in y (m/s²)")
    ax.legend(loc="lower right", handlelength=1.2, labelspacing=0.3)
