"""The figure of `flip_flop_fixed_points.py`: where networks rest, their modes there, counts, and a map."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import (
    draw_fixed_points,
    draw_jacobian_eigenvalues,
    figure_style,
    save_figure,
)
from popsim.analysis.neural_activity import principal_components

COLORS = {"GRU": "#0072B2", "tanh": "#D55E00"}  # Okabe & Ito


@dataclasses.dataclass(frozen=True)
class Portrait:
    """One member of an ensemble, and the counts of all.

    - `paths` [trial, time, unit]: states that it visited.
    - `points` [point, unit], `n_unstable` [point]: its fixed points.
    - `eigenvalues` [point, mode]: of the Jacobians there.
    - `counts` [member, unstable]: how many points each member has, by number of unstable directions.
    """

    paths: np.ndarray
    points: np.ndarray
    n_unstable: np.ndarray
    eigenvalues: np.ndarray
    counts: np.ndarray


def draw_figure(
    folder: Path, portraits: Mapping[str, Portrait], ideal: tuple[int, ...], draw_map: Callable[[Axes], None]
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `portraits`: by cell.
    - `ideal`: how many points there are with 0, 1, 2, ... unstable directions if bits do not interact.
    - `draw_map`: draws the map of all networks.

    **Returns:** the files.
    """
    with figure_style():
        figure = plt.figure(figsize=(7.0, 4.6), layout="constrained")
        grid = figure.add_gridspec(2, 3, width_ratios=[1.15, 1, 1])
        for row, (cell, portrait_of_cell) in enumerate(portraits.items()):
            portrait = figure.add_subplot(grid[row, 0], projection="3d")
            draw_portrait(portrait, portrait_of_cell)
            portrait.set_title(f"{cell}, member 0", fontsize=8)
            spectrum = draw_jacobian_eigenvalues(
                figure.add_subplot(grid[row, 1]), portrait_of_cell.eigenvalues, portrait_of_cell.n_unstable
            )
            legend = spectrum.get_legend()
            if legend is not None:
                legend.remove()
            spectrum.set_title(f"{cell}, member 0", fontsize=8)
        draw_counts(figure.add_subplot(grid[0, 2]), portraits, ideal)
        draw_map(figure.add_subplot(grid[1, 2]))
        for letter, ax in zip("abcdef", figure.axes, strict=False):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "flip_flop_fixed_points")
        plt.close(figure)
    return files


def draw_portrait(ax: Axes, portrait: Portrait) -> None:
    """Visited states and fixed points in the first three principal components of the visited states."""
    components = principal_components(portrait.paths[None], n_components=3)  # of one member
    points = components.project(portrait.points[None, None])[0, 0]
    draw_fixed_points(ax, points, portrait.n_unstable, paths=components.projections[0])
    ax.set(xticklabels=[], yticklabels=[], zticklabels=[])
    ax.grid(False)
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):  # pyright: ignore[reportAttributeAccessIssue]
        axis.labelpad = -12
    ax.legend(loc="upper left", bbox_to_anchor=(-0.25, 1.05), handletextpad=0.1, labelspacing=0.2)


def draw_counts(ax: Axes, portraits: Mapping[str, Portrait], ideal: tuple[int, ...]) -> None:
    """How many points each member has, by number of unstable directions."""
    for at, (cell, portrait) in enumerate(portraits.items()):
        n_members, n_kinds = portrait.counts.shape
        for member in range(n_members):
            shift = 0.09 * (member - (n_members - 1) / 2) + (0.25 if at else -0.25)
            ax.plot(np.arange(n_kinds) + shift, portrait.counts[member], ".", color=COLORS[cell], ms=4)
        ax.plot([], [], ".", color=COLORS[cell], label=f"{cell}, each member")
    for kind, n_points in enumerate(ideal):
        label = "three bits by themselves" if kind == 0 else None
        ax.plot([kind - 0.48, kind + 0.48], 2 * [n_points], color="0.4", lw=0.8, zorder=0, label=label)
    ax.set(
        xlabel="unstable directions", ylabel="fixed points", ylim=(0, 1.5 * max(ideal)), yticks=sorted(ideal)
    )
    ax.set_xticks(range(max(len(ideal), *(portrait.counts.shape[1] for portrait in portraits.values()))))
    ax.legend(loc="upper right", handlelength=1, borderaxespad=0)
