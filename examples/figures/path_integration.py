"""The figure of `path_integration.py`: paths, errors over time, and maps of units."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.gridspec import SubplotSpec
from matplotlib.patches import Rectangle

from popsim.analysis.figures import figure_style, save_figure

COLORS = {  # Okabe & Ito
    "trained": "#0072B2",
    "perfect integrator": "#D55E00",
    "without velocity": "0.45",
    "untrained": "0.7",
}
N_MAPS = 6


@dataclasses.dataclass(frozen=True)
class Tested:
    """What networks told in test trials.

    - `squares` [member, time]: the mean squared error along an axis, in m².
    - `outputs` [member, trial, time, 2]: what some of the trials were answered with, in m.
    """

    squares: np.ndarray
    outputs: np.ndarray


@dataclasses.dataclass(frozen=True)
class Tuning:
    """What the activity of the units of one network depends on.

    - `maps` [unit, row, column]: the mean activity in each place of the box.
    - `position`, `plane`, `velocity` [unit]: the share of the variance that is explained by the place, by a
        linear function of the position, and by heading and speed.
    """

    maps: np.ndarray
    position: np.ndarray
    plane: np.ndarray
    velocity: np.ndarray


def draw_figure(
    folder: Path,
    seconds: np.ndarray,
    results: Mapping[str, Tested],
    paths: np.ndarray,
    noise: float,
    tuning: Tuning,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `seconds` [time]: since the movement began.
    - `results`: what was told, by who told it.
    - `paths` [trial, time, 2]: the paths of the trials whose outputs are kept, in m.
    - `noise`: sigma of the velocity, in m / s^0.5.
    - `tuning`: of the first network.

    **Returns:** the files.
    """
    with figure_style():
        figure = plt.figure(figsize=(7.2, 2.3), layout="constrained")
        grid = figure.add_gridspec(1, 4, width_ratios=(1, 1.1, 1.35, 1))
        axes = [figure.add_subplot(grid[i]) for i in (0, 1, 3)]
        draw_paths(axes[0], results, paths)
        draw_errors(axes[1], seconds, results, noise)
        draw_maps(grid[2], tuning)
        draw_shares(axes[2], tuning)
        for letter, ax in zip("abd", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "path_integration")
        plt.close(figure)
    return files


def draw_paths(ax: Axes, results: Mapping[str, Tested], paths: np.ndarray) -> None:
    """Some paths, and what the first network and the perfect integrator take for them."""
    ax.add_patch(Rectangle((-1.1, -1.1), 2.2, 2.2, fill=False, ec="k", lw=0.8))
    ax.plot(*paths.transpose(2, 1, 0), color="k", lw=1.2)
    for name in ("perfect integrator", "trained"):
        ax.plot(*results[name].outputs[0].transpose(2, 1, 0), color=COLORS[name], lw=0.8)
    ax.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), xlabel="x (m)", ylabel="y (m)")


def draw_errors(ax: Axes, seconds: np.ndarray, results: Mapping[str, Tested], noise: float) -> None:
    """The root mean square error of each network over time, and that of the noise."""
    for name, tested in results.items():
        ax.plot(seconds, tested.squares.T**0.5, color=COLORS[name], lw=0.8)
        ax.plot([], [], color=COLORS[name], lw=1, label=name)
    ax.plot(seconds, noise * seconds**0.5, color="k", lw=1, ls=(0, (3, 3)), label=r"$\sigma\sqrt{t}$")
    ax.set(yscale="log", xlim=(0, seconds[-1]), ylim=(0.008, 40), xlabel="Time (s)", ylabel="Error (m)")
    ax.legend(loc="upper left", fontsize=6, handlelength=1.2, labelspacing=0.15)


def draw_maps(place: SubplotSpec, tuning: Tuning) -> None:
    """Maps of the units that depend most on the place."""
    grid, figure = place.subgridspec(2, 3), plt.gcf()
    for i, unit in enumerate(np.argsort(tuning.position)[::-1][:N_MAPS]):
        ax = figure.add_subplot(grid[i // 3, i % 3])
        ax.imshow(tuning.maps[unit], origin="lower", cmap="viridis")
        ax.set(xticks=[], yticks=[])
        if i == 0:
            ax.set_title("c", loc="left", fontweight="bold", fontsize=9)


def draw_shares(ax: Axes, tuning: Tuning) -> None:
    """Of each unit, how much is explained by position and by velocity."""
    ax.plot(tuning.velocity, tuning.position, "o", ms=3, mfc="none", mec=COLORS["trained"], mew=0.7)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="Explained by velocity", ylabel="Explained by position")
