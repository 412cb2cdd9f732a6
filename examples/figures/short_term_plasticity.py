"""The figure of `short_term_plasticity.py`: where the sample is held, and what the choices need."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {"activity": "#D55E00", "synapses": "#0072B2"}  # Okabe & Ito


@dataclasses.dataclass(frozen=True)
class Memories:
    """What networks hold of the sample, and what their choices need of it.

    - `times` [time]: at the end of the steps that were decoded, in seconds.
    - `decoded`: by "activity" and "synapses", the accuracy with which the sample is decoded [member, time].
    - `end`: the index of the last of the times before the test.
    - `accuracies`: by what was exchanged between trials then, the accuracy of the choices [member].
    """

    times: np.ndarray
    decoded: Mapping[str, np.ndarray]
    end: int
    accuracies: Mapping[str, np.ndarray]


def draw_figure(
    folder: Path, memories: Mapping[str, Memories], epochs: tuple[float, float, float], n_directions: int
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `memories`: of networks that are "plastic" and "plain".
    - `epochs`: the durations of fixation, sample and delay, in seconds.
    - `n_directions`: how many samples there are.

    **Returns:** the files.
    """
    kinds = {kind: memories[kind] for kind in ("plastic", "plain")}
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        for ax, (kind, of_kind) in zip(axes, kinds.items(), strict=False):
            draw_decoded(ax, of_kind, epochs, n_directions)
            ax.set_title(kind, fontsize=8)
        axes[0].legend(loc="lower right", handlelength=1.2, labelspacing=0.2)
        draw_exchanges(axes[2], kinds)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "short_term_plasticity")
        plt.close(figure)
    return files


def draw_decoded(ax: Axes, memories: Memories, epochs: tuple[float, float, float], n_directions: int) -> None:
    """The accuracy of decoding the sample over time, of each member."""
    fixation, sample, delay = epochs
    ax.axvspan(fixation, fixation + sample, color="0.9", lw=0, zorder=0)
    ax.axvline(fixation + sample + delay, color="0.6", lw=0.8, zorder=0)
    for name, courses in memories.decoded.items():
        for i, course in enumerate(courses):
            ax.plot(memories.times, course, color=COLORS[name], lw=0.8, label=None if i else name)
    ax.axhline(1 / n_directions, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.set(xlim=(0, memories.times[-1]), ylim=(0, 1.03), xlabel="Time (s)", ylabel="Decoding of the sample")


def draw_exchanges(ax: Axes, memories: Mapping[str, Memories]) -> None:
    """The accuracy of choices by what was exchanged between trials at the end of the delay."""
    for shift, marker, (kind, of_kind) in zip((-0.12, 0.12), "os", memories.items(), strict=True):
        style = {"ls": "", "marker": marker, "ms": 3.5, "mfc": "none", "mew": 0.8}
        for place, (part, accuracies) in enumerate(of_kind.accuracies.items()):
            color = COLORS.get(part, "k")
            ax.plot(np.full(len(accuracies), place + shift), accuracies, color=color, **style)
        ax.plot([], [], "k", label=kind, **style)
    ax.axhline(0.5, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.legend(loc="lower left", handlelength=1, labelspacing=0.2)
    ax.set_xticks(range(3), list(next(iter(memories.values())).accuracies))
    ax.set(xlim=(-0.5, 2.5), ylim=(0, 1.03), xlabel="Exchanged between trials", ylabel="Accuracy")
