"""The figure of `held_out_neurons.py`: rates of held-out units in one trial, and scores."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure
from references.held_out_neurons import DT, bits_per_spike

COLORS = {"encoded": "#0072B2", "from the past": "#56B4E9", "one start": "#E69F00", "other trial": "#D55E00"}
REGRESSION, TRUE, N_SHOWN = "#009E73", "0.6", 3  # Okabe & Ito; units in the first panel


def draw_figure(
    folder: Path, rates: Mapping[str, np.ndarray], regressed: Mapping[int, np.ndarray], spikes: np.ndarray
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `rates`: of units that are not read, in trials that are held out: "true" [trial, time, unit], and by the
        start of networks [member, trial, time, unit], in spikes/s.
    - `regressed`: the same of regressions [trial, time, unit], by the width of smoothing in time steps.
    - `spikes`: of these units [trial, time, unit].

    **Returns:** the files.
    """
    scores = {width: bits_per_spike(found, spikes) for width, found in regressed.items()}
    best = max(scores, key=lambda width: scores[width])
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_rates(axes[0], rates, regressed[best], spikes)
        draw_scores(axes[1], rates, scores[best], spikes)
        draw_widths(axes[2], rates, scores, spikes)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "held_out_neurons")
        plt.close(figure)
    return files


def draw_rates(ax: Axes, rates: Mapping[str, np.ndarray], regressed: np.ndarray, spikes: np.ndarray) -> None:
    """The units whose rates change most, in the first trial, one above the other, with their spikes."""
    trial, times = 0, DT * (np.arange(spikes.shape[1]) + 0.5)
    true = rates["true"][trial]
    for place, unit in enumerate(np.argsort(true.std(axis=0))[-N_SHOWN:]):
        top = true[:, unit].max() * 1.3
        courses = {
            "true": (true, TRUE),
            "encoded": (rates["encoded"][0, trial], COLORS["encoded"]),
            "regression": (regressed[trial], REGRESSION),
        }
        for name, (course, color) in courses.items():
            ax.plot(times, place + 0.85 * course[:, unit] / top, color=color, label=None if place else name)
        fired = np.repeat(times, spikes[trial, :, unit].astype(int))
        ax.plot(fired, np.full(fired.size, place - 0.04), "|", color="0.2", ms=3)
    ax.set(xlabel="Time (s)", ylabel="Rates of held-out units", yticks=[], ylim=(-0.15, N_SHOWN + 0.4))
    ax.legend(loc="upper center", ncols=3, fontsize=6, columnspacing=1.0, handlelength=1.2)


def draw_scores(ax: Axes, rates: Mapping[str, np.ndarray], regressed: float, spikes: np.ndarray) -> None:
    """Bits per spike of each network; of the best regression; and of the true rates, a line."""
    ax.axvline(bits_per_spike(rates["true"], spikes), color=TRUE, ls="--", lw=0.8)
    names = ["encoded", "regression", "from the past", "one start", "other trial"]
    for place, name in enumerate(reversed(names)):
        found = (
            [regressed] if name == "regression" else [bits_per_spike(each, spikes) for each in rates[name]]
        )
        ax.plot(found, np.full(len(found), place), "o", ms=4, mfc="none", color=COLORS.get(name, REGRESSION))
    ax.axvline(0, color="0.8", lw=0.6, zorder=0)
    ax.set(xlabel="Score (bits per spike)", yticks=range(len(names)), yticklabels=names[::-1])


def draw_widths(
    ax: Axes, rates: Mapping[str, np.ndarray], scores: Mapping[int, float], spikes: np.ndarray
) -> None:
    """Scores of regressions over the width of smoothing, and of networks, relative to the true rates."""
    true = bits_per_spike(rates["true"], spikes)
    widths = 1e3 * DT * np.array([*scores])
    ax.plot(
        widths, 100 * np.array([*scores.values()]) / true, "o-", ms=3, color=REGRESSION, label="regression"
    )
    for member, found in enumerate(rates["encoded"]):
        share = 100 * bits_per_spike(found, spikes) / true
        ax.axhline(share, color=COLORS["encoded"], lw=0.8, label=None if member else "encoded")
    ax.axhline(100, color=TRUE, ls="--", lw=0.8, label="true")
    ax.set(xlabel="Width of smoothing (ms)", ylabel="Score (% of true rates)", ylim=(50, 104))
    ax.legend(loc="lower center", ncols=3, fontsize=6, columnspacing=1.0, handlelength=1.2)
