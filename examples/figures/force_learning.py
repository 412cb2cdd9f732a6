"""The figure of `force_learning.py`: outputs before, while and after learning, weights, and errors."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from gates import Row
from popsim.analysis.figures import figure_style, save_figure
from references.force_learning import four_sines

COLORS = {"FORCE": "#0072B2", "full-FORCE": "#D55E00", "no feedback": "0.5"}  # Okabe & Ito
LABELS = {"FORCE": "FORCE", "full-FORCE": "full-FORCE", "no feedback": "FORCE, no\nfeedback"}
PERIOD, N_FROZEN = 600, 8  # steps, periods
LEARNS = "0.92"


def draw_figure(
    folder: Path, rows: Sequence[Row], outputs: Mapping[str, np.ndarray], sizes: np.ndarray, n_learned: int
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `rows`: numbers and gates of all networks and controls.
    - `outputs`: [time] of one network of each kind, and "before" of one that does not learn.
    - `sizes`: [time] of the readout that learns by FORCE.
    - `n_learned`: for how many periods networks learn.
    """
    with figure_style():
        figure = plt.figure(figsize=(9.2, 4.4), layout="constrained")
        grid = figure.add_gridspec(2, 12, height_ratios=(1.1, 1))
        spans = ((0, 2), (2, 5), (5, 9), (9, 12))
        traces = [figure.add_subplot(grid[0, slice(*span)]) for span in spans]
        draw_traces(traces, outputs, n_learned)
        below = [figure.add_subplot(grid[1, at : at + 4]) for at in (0, 4, 8)]
        draw_sizes(below[0], sizes, n_learned)
        draw_errors(below[1], rows, n_learned)
        draw_starts(below[2], rows)
        for letter, ax in zip("abcd", [traces[0], *below], strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "force_learning")
        plt.close(figure)
    return files


def draw_traces(axes: Sequence[Axes], outputs: Mapping[str, np.ndarray], n_learned: int) -> None:
    """Target and outputs: untrained, as it begins, as it ends, and after eight periods alone."""
    end = n_learned + N_FROZEN
    shown = {
        "untrained": (0, 1),
        "learning begins": (0, 1.5),
        "learning ends": (n_learned - 1, n_learned + 1),
        "fixed weights": (end - 1.5, end),
    }
    target = four_sines(end * PERIOD, PERIOD)
    times = np.arange(1, end * PERIOD + 1) / PERIOD
    for ax, (title, (first, last)) in zip(axes, shown.items(), strict=True):
        part = slice(int(first * PERIOD), int(last * PERIOD))
        for at, (kind, color) in enumerate(COLORS.items()):
            found = outputs["before" if title == "untrained" else kind][part]
            ax.plot(times[part], np.clip(found, -2, 2) - 3.2 * at, color=color, lw=1.2)
            ax.plot(times[part], target[part] - 3.2 * at, color="k", lw=0.8, ls=(0, (3, 2)))
            if ax is axes[0]:
                ax.text(
                    first - 0.08, -3.2 * at, LABELS[kind], color=color, fontsize=7, ha="right", va="center"
                )
        if title != "untrained":
            ax.axvspan(first, min(last, max(first, n_learned)), color=LEARNS, lw=0)
        ax.set_title(title, fontsize=7)
        ax.set(xlim=(first, last), ylim=(-8.6, 1.9), yticks=[], xlabel="Periods")
        ax.xaxis.set_major_locator(MultipleLocator(0.5 if last - first < 2 else 1))
        ax.spines["left"].set_visible(False)


def draw_sizes(ax: Axes, sizes: np.ndarray, n_learned: int) -> None:
    """How large the readout is while it learns."""
    ax.axvspan(0, n_learned, color=LEARNS, lw=0)
    ax.plot(np.arange(1, len(sizes) + 1) / PERIOD, sizes, color=COLORS["FORCE"], lw=1.2)
    ax.text(n_learned / 2, 0.02 * sizes.max(), "learns", color="0.4", fontsize=7, ha="center", va="bottom")
    ax.set(xlim=(0, len(sizes) / PERIOD), ylim=(0, None), xlabel="Periods", ylabel="Size of readout |w|")


def draw_errors(ax: Axes, rows: Sequence[Row], n_learned: int) -> None:
    """Errors with fixed weights over the number of periods in which networks learned."""
    ax.axhspan(1e-3, 0.1, color="0.9", lw=0)
    for kind, shift in {"FORCE": -0.3, "full-FORCE": 0.3}.items():
        names = [kind if row.condition == kind else row.condition.removeprefix(f"{kind}, ") for row in rows]
        found = [(n_learned, row.value) for row, name in zip(rows, names, strict=True) if name == kind]
        found += [
            (int(name.split()[0]), row.value)
            for row, name in zip(rows, names, strict=True)
            if name.endswith(" periods") and row.condition.startswith(f"{kind}, ")
        ]
        periods, errors = np.array(found).T
        ax.plot(periods + shift, errors, "o", ms=3.5, color=COLORS[kind], label=kind)
    for label, marker in {"no feedback": "x", "slow": "+"}.items():
        errors = [row.value for row in rows if row.condition == f"FORCE, {label}"]
        ax.plot([n_learned] * len(errors), errors, marker, ms=4.5, color="0.3", label=f"FORCE, {label}")
    ax.set(yscale="log", ylim=(1e-3, 3), xlim=(-1.5, n_learned + 2), xlabel="Learned periods")
    ax.set_ylabel("Error with fixed weights (SD)")
    ax.legend(loc="lower left", fontsize=6, handlelength=1, labelspacing=0.2)


def draw_starts(ax: Axes, rows: Sequence[Row]) -> None:
    """Errors from other starts, relative to the target or to its mirror image, whichever is nearer."""
    ax.axhspan(1e-3, 0.1, color="0.9", lw=0)
    for at, kind in enumerate(("FORCE", "full-FORCE")):
        found = [row for row in rows if row.condition.startswith(f"{kind}, other start")]
        places = at + np.linspace(-0.3, 0.3, len(found))
        for sign, marker in {"target": "o", "mirror image": "v"}.items():
            of_sign = [(x, row.value) for x, row in zip(places, found, strict=True) if sign in row.condition]
            face = COLORS[kind] if sign == "target" else "none"
            label = f"nearer to the {sign}" if at == 0 else "_"
            x, errors = np.array(of_sign).reshape(-1, 2).T
            ax.plot(x, errors, marker, ms=4, color=COLORS[kind], mfc=face, label=label)
    ax.set(yscale="log", ylim=(1e-3, 3), xlim=(-0.5, 1.5), ylabel="Error from other starts (SD)")
    ax.set_xticks([0, 1], ["FORCE", "full-FORCE"])
    ax.legend(loc="upper left", fontsize=6, handlelength=1, labelspacing=0.2)
