"""The figure of `feedback_rotations.py`: the fastest plane of rotation, and what rotations explain."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure
from popsim.analysis.neural_activity import Rotations

COLORS = {"recurrent": "#0072B2", "without recurrence": "#D55E00"}  # Okabe & Ito


def draw_figure(folder: Path, fits: Mapping[str, Mapping[str, Rotations]], least: float) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `fits`: rotations by kind of network and signal.
    - `least`: the r² of a rotation that passes.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 4, figsize=(9.2, 2.4), layout="constrained")
        planes = (("recurrent", "units"), ("recurrent", "feedback"), ("without recurrence", "feedback"))
        for ax, (kind, name) in zip(axes, planes, strict=False):
            draw_plane(ax, fits[kind][name], f"{name},\n{kind}")
        draw_shares(axes[3], fits, least)
        for letter, ax in zip("abcd", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "feedback_rotations")
        plt.close(figure)
    return files


def draw_plane(ax: Axes, found: Rotations, title: str) -> None:
    """The paths of the first network in its first plane, a colour for each load, from their dots."""
    paths = found.projections[0, :, :, 0]  # (load, time, 2)
    for path, color in zip(paths, plt.get_cmap("twilight")(np.arange(len(paths)) / len(paths)), strict=True):
        ax.plot(*path.T, color=color, lw=1.0)
        ax.plot(*path[0], "o", color=color, ms=3, mew=0)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[], title=title, xlabel="Plane 1", ylabel="")
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)


def draw_shares(ax: Axes, fits: Mapping[str, Mapping[str, Rotations]], least: float) -> None:
    """How much of the change of each signal a rotation explains, in each network, and the gate."""
    for shift, (kind, of_signals) in zip((-0.13, 0.13), fits.items(), strict=True):
        for at, found in enumerate(of_signals.values()):
            places = at + shift + 0.04 * (np.arange(len(found.r2_skew)) - (len(found.r2_skew) - 1) / 2)
            ax.plot(places, found.r2_skew, "o", ms=3.2, color=COLORS[kind], mew=0)
        ax.plot([], [], "o", ms=3.2, color=COLORS[kind], mew=0, label=kind)
    ax.axhline(least, color="0.6", lw=0.6, ls=":", zorder=0)
    names = list(next(iter(fits.values())))
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set(ylabel="r² of a rotation", ylim=(0, 1), xlim=(-0.5, len(names) - 0.5))
    ax.legend(loc="upper right", handlelength=0.8, labelspacing=0.25)
