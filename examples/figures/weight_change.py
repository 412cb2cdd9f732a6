"""The figure of `weight_change.py`: how far, and in how many dimensions, weights change in adaptation."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import (
    draw_change_spectrum,
    draw_weight_history,
    draw_weight_matrix,
    figure_style,
    save_figure,
)
from popsim.analysis.trainables import gaussian_singular_values

COLORS = {"SGD": "#0072B2", "Adam": "#E69F00"}  # Okabe & Ito


@dataclasses.dataclass(frozen=True)
class Change:
    """What an adaptation did to the recurrent weights.

    - `batch` [batch]: the numbers of the recorded batches.
    - `change` [member, row, column]: dW, from the first to the last of them.
    - `singular_values` [member, mode]: of dW.
    - `travelled`, `from_start` [batch, member]: distances, relative to the norm before.
    - `ranks` [rank]: to which dW is truncated.
    - `kept` [rank, member]: the share of the improvement of the cost that remains.
    """

    batch: np.ndarray
    change: np.ndarray
    singular_values: np.ndarray
    travelled: np.ndarray
    from_start: np.ndarray
    ranks: np.ndarray
    kept: np.ndarray


def draw_figure(folder: Path, changes: Mapping[str, Change], least_kept: float, key: jax.Array) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `changes`: by name of the optimizer, of which the first has its matrix shown.
    - `least_kept`: the share of the improvement that passes, with a quarter of the modes.
    - `key`: for the matrices without structure.

    **Returns:** the files.
    """
    first = next(iter(changes.values()))
    with figure_style():
        figure, axes = plt.subplots(2, 2, figsize=(6.6, 5.0), layout="constrained")
        draw_weight_matrix(axes[0, 0], first.change[0], label="change of weight")
        axes[0, 0].set(title="dW of member 0", ylabel="to unit: reset, update, candidate")
        null = gaussian_singular_values(*first.change.shape[1:], key=key)
        for name, change in changes.items():
            draw_weight_history(axes[0, 1], change.batch, change.from_start, label=name, color=COLORS[name])
            draw_change_spectrum(axes[1, 0], change.singular_values, null, color=COLORS[name])
            draw_kept(axes[1, 1], change, name)
        axes[0, 1].set(title="|dW| / |W|", ylabel="distance from start")
        axes[0, 1].legend()
        tell_apart(axes[1, 0], list(changes))
        axes[1, 1].plot(first.ranks.max() / 4, least_kept, "k^", markersize=4, label="gate")
        axes[1, 1].axhline(1.0, color="0.6", linewidth=0.7, zorder=0)
        axes[1, 1].set(title="dW truncated", xlabel="rank", ylabel="improvement kept", ylim=(None, 1.2))
        axes[1, 1].legend(loc="lower right")
        return save_figure(figure, folder, "weight_change")


def draw_kept(ax: Axes, change: Change, name: str) -> None:
    """The share of the improvement of each member over the rank of its truncated change."""
    lines = ax.plot(change.ranks, change.kept, color=COLORS[name], linewidth=0.8, marker=".", markersize=3)
    lines[0].set_label(name)


def tell_apart(ax: Axes, names: list[str]) -> None:
    """A legend with a line for each optimizer and one for the matrices without structure."""
    lines, _ = ax.get_legend_handles_labels()
    members = [line for line in lines if line.get_label() == "members"]
    gaussian = next(line for line in lines if line not in members)
    ax.legend([*members, gaussian], [*names, str(gaussian.get_label())], loc="lower left")
    ax.set_title("singular values of dW")
