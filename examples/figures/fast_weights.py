"""The figure of `fast_weights.py`: learning curves, and errors by the pair that is asked for."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {
    "fast weights": "#0072B2",
    "plain": "#D55E00",
    "weaker": "#E69F00",
    "switched off": "0.6",
}  # Okabe & Ito
N_SMOOTHED = 50  # batches


@dataclasses.dataclass(frozen=True)
class Recalls:
    """What networks answered in the same trials.

    - `asked` [trial]: which pair was asked for.
    - `is_wrong` [member, trial]: whether the answer was wrong.
    """

    asked: np.ndarray
    is_wrong: np.ndarray

    def errors_by_pair(self) -> np.ndarray:
        """The error for each pair [member, pair]."""
        pairs = range(self.asked.max() + 1)
        return np.stack([self.is_wrong[:, self.asked == pair].mean(axis=1) for pair in pairs], axis=1)


def draw_figure(
    folder: Path,
    losses: Mapping[str, np.ndarray],
    recalls: Mapping[str, Recalls],
    guess_error: float,
    gate: float,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `losses`: by kind of network, the cross entropy [batch, member] in training.
    - `recalls`: by kind of network, what was answered.
    - `guess_error`: the smallest error by the values alone.
    - `gate`: the largest error that passes.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_losses(axes[0], losses)
        draw_errors(axes[1], recalls, guess_error, gate)
        draw_pairs(axes[2], recalls, guess_error)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "fast_weights")
        plt.close(figure)
    return files


def draw_losses(ax: Axes, losses: Mapping[str, np.ndarray]) -> None:
    """Learning curves of all members, smoothed."""
    for name, courses in losses.items():
        n_means = len(courses) // N_SMOOTHED
        means = courses[: n_means * N_SMOOTHED].reshape(n_means, N_SMOOTHED, -1).mean(axis=1)
        ax.plot(N_SMOOTHED * np.arange(1, n_means + 1), means, color=COLORS[name], lw=0.7)
        ax.plot([], [], color=COLORS[name], lw=1, label=name)
    ax.legend(loc="center right", handlelength=1.2, labelspacing=0.2)
    ax.set(yscale="log", xlim=(0, None), xlabel="Training batch", ylabel="Cross entropy")


def draw_errors(ax: Axes, recalls: Mapping[str, Recalls], guess_error: float, gate: float) -> None:
    """The error of each member, and the mean, beside that of the values alone."""
    for place, (name, recalled) in enumerate(recalls.items()):
        errors = recalled.is_wrong.mean(axis=1)
        offsets = 0.06 * (np.arange(len(errors)) - (len(errors) - 1) / 2)
        ax.plot(place + offsets, errors, "o", ms=3.5, mfc="none", mec=COLORS[name], mew=0.8, clip_on=False)
        ax.plot([place - 0.25, place + 0.25], 2 * [errors.mean()], color=COLORS[name], lw=1.2)
    for name, error in (("best without keys", guess_error), ("gate", gate)):
        ax.axhline(error, color="k", lw=0.8, ls=(0, (3, 3)))
        ax.text(0.02, error, name, va="bottom", fontsize=7, transform=ax.get_yaxis_transform())
    ax.set(xlim=(-0.5, len(recalls) - 0.5), ylim=(0, 1), ylabel="Error")
    ax.set_xticks(range(len(recalls)), [name.replace(" ", "\n") for name in recalls])


def draw_pairs(ax: Axes, recalls: Mapping[str, Recalls], guess_error: float) -> None:
    """The error of each member by the pair that is asked for, the first to the last."""
    for name, recalled in recalls.items():
        errors = recalled.errors_by_pair()
        pairs = np.arange(1, errors.shape[1] + 1)
        ax.plot(pairs, errors.T, "o-", ms=2.5, color=COLORS[name], lw=0.7, clip_on=False)
    ax.axhline(guess_error, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.set(ylim=(0, 1), xticks=[1, 2, 3, 4], xlabel="Pair that is asked for", ylabel="Error")
