"""The figure of `flexible_feedback.py`: paths to a point and to a bar, and where pushed reaches end."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure
from references import flexible_feedback as reference

COLORS = {"point": "#D55E00", "bar": "#0072B2"}  # Okabe & Ito
OPTIMAL = {"color": "k", "lw": 0.8, "ls": (0, (3, 2))}
CM, MM = 100, 1000  # per metre


def draw_figure(folder: Path, paths: Mapping[str, np.ndarray], reach: reference.Reach) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `paths`: by kind of controller [member, width, side, step, time, 2] (m).
    - `reach`: the reach, with the steps of the pushes.

    **Returns:** the files.
    """
    with figure_style():
        n_columns = 4 if "arm" in paths else 3
        figure, axes = plt.subplots(1, n_columns, figsize=(2.3 * n_columns, 2.3), layout="constrained")
        draw_paths(axes[0], paths["told"], paths["optimal"][0], reach)
        draw_deviations(axes[1], paths["told"], paths["optimal"][0], reach, "networks and the optimum")
        draw_deviations(axes[2], paths["not told"], paths["best that is not told"][0], reach, "not told")
        if n_columns == 4:
            draw_deviations(axes[3], paths["arm"], None, reach, "arm with muscles")
        for letter, ax in zip("abcd", axes, strict=False):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "flexible_feedback")
        plt.close(figure)
    return files


def draw_paths(ax: Axes, paths: np.ndarray, optimal: np.ndarray, reach: reference.Reach) -> None:
    """Pushed reaches of the first network to both targets, and the optimal ones."""
    for width, (name, color) in enumerate(COLORS.items()):
        for at in range(len(reach.push_steps)):
            for source, style in ((paths[0], {"color": color, "lw": 0.9}), (optimal, OPTIMAL)):
                path = np.concatenate([np.zeros((1, 2)), source[width, 2, at]])
                ax.plot(*(CM * path.T), **style)
        ax.plot([], [], color=color, label=name)
    ax.plot([], [], **OPTIMAL, label="optimal")
    x, y = CM * reference.TARGET
    ax.plot(x, y, "o", ms=4, color=COLORS["point"], zorder=5)
    ax.axvline(x, color=COLORS["bar"], lw=0.6, zorder=0)
    ax.legend(loc="upper left", handlelength=1.4, labelspacing=0.25)
    ax.set(xlabel="x (cm)", ylabel="y (cm)")


def draw_deviations(
    ax: Axes, paths: np.ndarray, optimal: np.ndarray | None, reach: reference.Reach, title: str
) -> None:
    """How far from the middle reaches end, over the time of the push, and the same of the optimum."""
    times = MM * reach.dt * np.array(reach.push_steps)
    for width, color in enumerate(COLORS.values()):
        for source, style in (
            (paths, {"color": color, "lw": 0.8, "marker": "o", "ms": 2.4}),
            (optimal, OPTIMAL),
        ):
            if source is not None:
                across = np.asarray(source)[..., width, :, :, -1, 1]
                ends = MM * (across[..., 2, :] - across[..., 0, :]) / 2
                ax.plot(times, np.atleast_2d(ends).T, **style)
    ax.axhline(0, color="0.7", lw=0.5, zorder=0)
    ax.set(xlabel="Time of the push (ms)", ylabel="Deviation at the end (mm)", title=title)
