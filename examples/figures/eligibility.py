"""The figure of `eligibility.py`: identities, learning curves, memory, and reaches by online rules."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gates import Row
from popsim.analysis.figures import figure_style, save_figure

COLORS = {
    "back-propagation": "k",
    "e-prop": "#0072B2",
    "RFLO": "#D55E00",
    "readout alone": "0.6",
}  # Okabe & Ito
REACH_COLORS = {"back-propagation": "k", "through the body": "#0072B2", "signal of the step": "#CC79A7"}
WINDOW = 20  # batches over which curves are averaged


def draw_figure(
    folder: Path,
    rows: Sequence[Row],
    curves: Mapping[str, np.ndarray],
    learned: float,
    memory: Mapping[str, Mapping[int, float]],
    errors: Mapping[str, np.ndarray],
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `rows`: numbers and gates.
    - `curves`: by rule, the losses [member, batch].
    - `learned`: the loss below which the task counts as learned.
    - `memory`: by rule, of a gradient (MiB), by the number of time steps.
    - `errors`: by rule, at the end of reaches (m) [member].

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(
            1, 4, figsize=(9.2, 2.3), width_ratios=(1.25, 1.2, 1, 0.9), layout="constrained"
        )
        draw_identities(axes[0], rows)
        draw_curves(axes[1], curves, learned)
        draw_memory(axes[2], memory)
        draw_errors(axes[3], errors)
        for letter, ax in zip("abcd", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "eligibility")
        plt.close(figure)
    return files


def draw_identities(ax: Axes, rows: Sequence[Row]) -> None:
    """Relative errors of gradients that have to be the same, and of those that must not."""
    kinds = {
        "RTRL": "RTRL, back-prop.",
        "e-prop at W = 0": "e-prop, W = 0",
        "total signal": "traces, total signal",
        "signal of the step": "traces, of the step",
        "random signal": "traces, random",
        "Murray's network": "Murray's network",
        "e-prop": "e-prop, W as drawn",
    }
    for at, kind in enumerate(kinds):
        found = [row for row in rows if row.condition.split(",")[0] == kind and row.gate is not None]
        for row in found:
            color = "#D55E00" if row.must_fail else "#0072B2"
            ax.plot(row.value, at, "x" if row.must_fail else "o", ms=4, color=color, alpha=0.8)
    ax.plot([], [], "o", ms=4, color="#0072B2", label="same")
    ax.plot([], [], "x", ms=4, color="#D55E00", label="controls")
    ax.axvspan(1e-17, 1e-12, color="0.9", lw=0)
    ax.set_yticks(range(len(kinds)), list(kinds.values()), fontsize=6)
    ax.set(xscale="log", xlim=(1e-17, 100), ylim=(len(kinds) - 0.5, -0.5), xlabel="Relative error")
    ax.set_xticks([1e-16, 1e-12, 1e-8, 1e-4, 1])
    ax.minorticks_off()
    ax.legend(loc="center", bbox_to_anchor=(0.56, 0.6), fontsize=6, handlelength=0.8, labelspacing=0.2)


def draw_curves(ax: Axes, curves: Mapping[str, np.ndarray], learned: float) -> None:
    """Losses over batches, averaged over some."""
    for name, color in COLORS.items():
        if name not in curves:
            continue
        for number, curve in enumerate(curves[name]):
            smooth = np.convolve(curve, np.full(WINDOW, 1 / WINDOW), "valid")
            batches = np.arange(len(smooth)) + WINDOW
            ax.plot(batches, smooth, color=color, lw=0.9, label="_" if number else name)
    ax.axhline(learned, color="0.4", lw=0.7, ls=(0, (3, 2)))
    ax.set(xlim=(0, None), ylim=(0, 1.25), xlabel="Batch", ylabel="Loss")
    if curves:
        ax.legend(loc="upper right", fontsize=6, handlelength=1.2, labelspacing=0.2)


def draw_memory(ax: Axes, memory: Mapping[str, Mapping[int, float]]) -> None:
    """Memory of a gradient over the length of a trial."""
    for name, found in memory.items():
        ax.plot([*found], [*found.values()], "o-", ms=3.5, lw=0.9, color=COLORS[name], label=name)
    ax.set(xscale="log", yscale="log", ylim=(0.5, 400), xlabel="Time steps", ylabel="Memory (MiB)")
    ax.set_xticks([100, 1000, 10_000], ["100", "1,000", "10,000"])
    ax.set_yticks([1, 10, 100], ["1", "10", "100"])
    ax.minorticks_off()
    ax.legend(loc="upper left", fontsize=6, handlelength=1.4, labelspacing=0.2)


def draw_errors(ax: Axes, errors: Mapping[str, np.ndarray]) -> None:
    """End errors of reaches."""
    for at, (name, color) in enumerate(({**REACH_COLORS, "untrained": "0.6"}).items()):
        places = at + np.linspace(-0.2, 0.2, len(errors[name]))
        ax.plot(places, 1000 * errors[name], "o", ms=3.5, color=color)
    ax.axhspan(0, 1500 * errors["back-propagation"].mean(), color="0.9", lw=0)
    labels = ["back-\nprop.", "through\nthe body", "of the\nstep", "un-\ntrained"]
    ax.set_xticks(range(len(labels)), labels, fontsize=6)
    ax.set(xlim=(-0.5, 3.5), ylim=(0, None), ylabel="End error (mm)")
