"""The figure of `flip_flop.py`: three bits in a trial, learning curves, and bits that are held."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {"GRU": "#0072B2", "tanh": "#D55E00"}  # Okabe & Ito
LEAST_DRIFT = 1e-8  # shown; below the rounding of outputs near 1


@dataclasses.dataclass(frozen=True)
class Memory:
    """What networks put out.

    - `pulses` [trial, time, bit]: what they received.
    - `bits` [trial, time, bit]: what was to be put out.
    - `outputs` [member, trial, time, bit]: what was.
    """

    pulses: np.ndarray
    bits: np.ndarray
    outputs: np.ndarray

    def largest_errors(self) -> np.ndarray:
        """How far an output is from its bit [member, time]: the farthest, over trials and bits."""
        return np.abs(self.outputs - self.bits).max(axis=(1, 3))


def draw_figure(
    folder: Path,
    memories: Mapping[str, Mapping[str, Memory]],
    losses: Mapping[str, np.ndarray],
    largest: tuple[float, float],
    n_held: int,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `memories`: by cell, what networks did in "trials" and when "holding".
    - `losses`: by cell, the mean squared error [batch, member] in training.
    - `largest`: which mean squared error passes, and which error of a held output.
    - `n_held`: how many steps before the end of holding count.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.5), layout="constrained", width_ratios=[1.5, 1, 1])
        draw_trial(axes[0], {cell: memory["trials"] for cell, memory in memories.items()})
        draw_losses(axes[1], losses, largest[0])
        errors = {cell: memory["holding"].largest_errors() for cell, memory in memories.items()}
        draw_held(axes[2], errors, largest[1], n_held)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "flip_flop")
        plt.close(figure)
    return files


def draw_trial(ax: Axes, memories: Mapping[str, Memory], trial: int = 0) -> None:
    """The pulses, the bits and the outputs of one member of each kind in one trial."""
    first = next(iter(memories.values()))
    n_bits = first.bits.shape[-1]
    steps = np.arange(first.bits.shape[1])
    for bit in range(n_bits):
        place = 3.0 * (n_bits - 1 - bit)
        ax.fill_between(
            steps, place, place + first.pulses[trial, :, bit], step="mid", color="0.6", lw=0, zorder=0
        )
        ax.plot(steps, place + first.bits[trial, :, bit], "k", lw=0.8, drawstyle="steps-mid")
        for at, (cell, memory) in enumerate(memories.items()):
            shown = steps[2 * at :: 2 * len(memories)]
            style = {"ls": "", "marker": "o", "ms": 1.8, "mew": 0, "color": COLORS[cell]}
            ax.plot(shown, place + memory.outputs[0, trial, shown, bit], **style)
        ax.text(-3, place, f"bit {bit + 1}", ha="right", va="center", fontsize=7)
    ax.fill_between([], [], color="0.6", lw=0, label="pulse")
    ax.plot([], [], "k", lw=0.8, label="bit")
    for cell in memories:
        ax.plot([], [], "o", ms=2.5, mew=0, color=COLORS[cell], label=cell)
    ax.legend(loc="upper left", ncols=4, handlelength=1, columnspacing=1.2, borderaxespad=0)
    ax.set(xlim=(0, len(steps)), ylim=(-1.6, 3 * n_bits - 0.2), yticks=[], xlabel="Time step")
    ax.spines["left"].set_visible(False)


def draw_losses(ax: Axes, losses: Mapping[str, np.ndarray], largest: float) -> None:
    """Learning curves of all members, smoothed over 20 batches."""
    for cell, courses in losses.items():
        n_means = len(courses) // 20
        means = courses[: 20 * n_means].reshape(n_means, 20, -1).mean(axis=1)
        ax.plot(20 * np.arange(1, n_means + 1), means, color=COLORS[cell], lw=0.7)
        ax.plot([], [], color=COLORS[cell], lw=1, label=cell)
    ax.axhline(largest, color="k", lw=0.8, ls=(0, (3, 3)))
    ax.text(0.02, largest * 0.92, "gate", va="top", fontsize=7, transform=ax.get_yaxis_transform())
    ax.legend(loc="upper right", handlelength=1.2, labelspacing=0.2)
    ax.set(yscale="log", xlim=(0, None), xlabel="Training batch", ylabel="Mean squared error")


def draw_held(ax: Axes, errors: Mapping[str, np.ndarray], largest: float, n_held: int) -> None:
    """How far outputs of each member [member, time] are from bits that were set once."""
    n_steps = next(iter(errors.values())).shape[1]
    for cell, courses in errors.items():
        ax.plot(np.arange(1, n_steps + 1), courses.T, color=COLORS[cell], lw=0.8)
    ax.axvspan(n_steps - n_held, n_steps, color="0.88", lw=0, zorder=0)
    ax.text(
        n_steps - n_held,
        0.97,
        "has to stay ",
        ha="right",
        va="top",
        fontsize=7,
        transform=ax.get_xaxis_transform(),
    )
    ax.plot([n_steps - n_held, n_steps], 2 * [largest], "k", lw=0.8, ls=(0, (3, 1)))
    ax.text(n_steps - n_held, largest, "gate ", ha="right", va="center", fontsize=7)
    ax.set(yscale="log", xlim=(0, n_steps), ylim=(1e-3, 2))
    ax.set(xlabel="Steps since the pulse", ylabel="Largest error of an output")
