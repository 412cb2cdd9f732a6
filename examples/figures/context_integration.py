"""The figure of `context_integration.py`: psychometric curves in both contexts, and their slopes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from popsim.analysis.figures import figure_style, save_figure
from references import ideal_observer as reference

COLORS = ("#0072B2", "#D55E00")  # by context; Okabe & Ito
MARKERS = {"trained": "o", "untrained": "x", "context swapped": "s", "longer stimulus": "^"}


def draw_figure(
    folder: Path,
    streams: Sequence[str],
    curves: tuple[np.ndarray, np.ndarray],
    slopes: Mapping[str, np.ndarray],
    gate: tuple[tuple[float, float], tuple[float, float], float],
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `streams`: their names; the contexts are named after them.
    - `curves`: the coherences, and the shares of choices to the right [context, stream, member, coherence].
    - `slopes`: by what was tested, the slopes [context, member, 2] for the stream that is to be judged and
        for the other one.
    - `gate`: of either slope the lowest and the highest value that pass, and the ideal slope.

    **Returns:** the files.
    """
    coherences, shares = curves
    with figure_style():
        figure, axes = plt.subplot_mosaic(
            [["00", "01", "slopes"], ["10", "11", "slopes"]],
            figsize=(7.0, 3.5),
            width_ratios=[1, 1, 1.9],
            layout="constrained",
        )
        for context, color in enumerate(COLORS):
            for stream, name in enumerate(streams):
                ax = axes[f"{context}{stream}"]
                ideal = gate[2] if stream == context else 0.0
                draw_psychometric(ax, coherences, shares[context, stream], ideal, color)
                ax.set(ylabel=f"P(right), {streams[context]} context" if stream == 0 else None)
                ax.set(xlabel=f"Coherence of {name}" if context == 1 else None)
                ax.tick_params(labelleft=stream == 0, labelbottom=context == 1)
        draw_legend(axes["01"])
        draw_slopes(axes["slopes"], streams, slopes, gate)
        for letter, place in (("a", "00"), ("b", "slopes")):
            axes[place].set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "context_integration")
        plt.close(figure)
    return files


def draw_psychometric(ax: Axes, coherences: np.ndarray, shares: np.ndarray, slope: float, color: str) -> None:
    """The shares of choices to the right [member, coherence] over the curve of the ideal observer."""
    fine = np.linspace(-0.55, 0.55, 201)
    ax.plot(fine, reference.normal_cdf(slope * fine), "k", lw=0.8, zorder=0)
    for member_shares in shares:
        ax.plot(coherences, member_shares, "o", ms=3.2, mfc="none", mec=color, mew=0.7, clip_on=False)
    ax.set(xlim=(-0.55, 0.55), ylim=(0, 1), xticks=[-0.5, 0, 0.5], yticks=[0, 0.5, 1])


def draw_legend(ax: Axes) -> None:
    """What circles and the line are, in a panel that has room."""
    ax.plot([], [], "k", lw=0.8, label="ideal observer")
    ax.plot([], [], "o", ms=3.2, mfc="none", mec="0.3", mew=0.7, label="member")
    ax.legend(loc="upper left", handlelength=1.2, labelspacing=0.2, borderaxespad=0.1)


def draw_slopes(ax: Axes, streams: Sequence[str], slopes: Mapping[str, np.ndarray], gate: tuple) -> None:
    """Both slopes of each member in both contexts, trained and as controls, and what passes."""
    (low, high), (low_other, high_other), ideal = gate
    box = Rectangle((low, low_other), high - low, high_other - low_other, fc="0.85", ec="none", zorder=0)
    ax.add_patch(box)
    for name, member_slopes in slopes.items():
        style = {"marker": MARKERS[name], "ls": "", "ms": 4, "mfc": "none", "mew": 0.8}
        for context, color in enumerate(COLORS):
            ax.plot(*member_slopes[context].T, **style, mec=color)
        ax.plot([], [], **style, mec="0.3", label=name)
    ax.plot(ideal, 0, "k+", ms=9, mew=0.9, zorder=3, label="ideal observer")
    ax.legend(loc="center right", handlelength=1, labelspacing=0.3)
    for place, (stream, color) in enumerate(zip(streams, COLORS, strict=True)):
        ax.text(
            0.98, 0.95 - 0.06 * place, f"{stream} context", color=color, ha="right", transform=ax.transAxes
        )
    ax.text(low - 0.1, low_other, "gate", color="0.4", ha="right", va="bottom", fontsize=7)
    ax.set(xlim=(-0.7, 6.2), ylim=(-0.7, 5.7))
    ax.set(xlabel="Slope, stream to be judged", ylabel="Slope, other stream")
