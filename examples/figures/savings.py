"""The figure of `savings.py`: washout, the second exposure, and what is saved beside what was left."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = ("#0072B2", "#D55E00")  # Okabe & Ito: little noise, much noise
MARKERS = ("o", "s", "^")  # by number of units
CONTROL = "0.45"


@dataclasses.dataclass(frozen=True)
class Course:
    """What came of the members of one group.

    - `losses` [batch, member]: in the field, "first" and after the "short" and the "long" washout. That of
        the control group is without the field at first.
    - `before` [member]: the deviation of paths in the field (m) before the exposure after each washout.
    - `prepared` [member, direction, unit]: activity at the go cue, after the first stage and each washout.
    - `batches` [log], `deviations` [log, member]: of washout, and the deviation in the field (m) after them.
    """

    losses: dict[str, np.ndarray]
    before: dict[str, np.ndarray]
    prepared: dict[str, np.ndarray]
    batches: np.ndarray
    deviations: np.ndarray


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Both groups of one size, and shares [noise, network] by what they are and by washout."""

    exposed: Course
    control: Course
    shares: dict[str, dict[str, np.ndarray]]


def draw_figure(
    folder: Path,
    results: Mapping[int, Comparison],
    noises: Sequence[str],
    least_saved: float,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `results`: by number of units; the courses shown are those of the number in the middle.
    - `noises`: the names of both noises.
    - `least_saved`: the share that networks with little noise have to save.

    **Returns:** the files.
    """
    n_units = sorted(results)[len(results) // 2]
    with figure_style():
        figure, axes = plt.subplots(2, 3, figsize=(7.0, 4.2), layout="constrained")
        draw_washout(axes[0, 0], results[n_units], noises, n_units)
        draw_losses(axes[0, 1], results[n_units], noises)
        draw_ratios(axes[0, 2], results[n_units], noises)
        draw_head_start(axes[1, 0], results, least_saved)
        draw_sizes(axes[1, 1], results, "saved", "Saved (%)", noises)
        draw_sizes(axes[1, 2], results, "shift kept", "Shift kept (%)", ())
        axes[1, 1].axhline(100 * least_saved, color="0.6", lw=0.6, ls=":", zorder=0)
        for letter, ax in zip("abcdef", axes.flat, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "savings")
        plt.close(figure)
    return files


def of_noise(values: np.ndarray, number: int) -> np.ndarray:
    """The mean over the members [..., member] of one noise, which follow each other."""
    return values.reshape(*values.shape[:-1], 2, -1)[..., number, :].mean(axis=-1)


def draw_washout(ax: Axes, found: Comparison, noises: Sequence[str], n_units: int) -> None:
    """The deviation of paths in the field over the batches of washout, of both groups."""
    for number, noise in enumerate(noises):
        for course, style in ((found.exposed, "o-"), (found.control, ":")):
            deviations = -100 * of_noise(course.deviations, number)
            ax.plot(course.batches, deviations, style, color=COLORS[number], ms=2.5, lw=1)
        ax.plot([], [], "o-", ms=2.5, lw=1, color=COLORS[number], label=noise)
    ax.plot([], [], ":", color=CONTROL, lw=1, label="control group")
    ax.legend(loc="lower right", handlelength=1.6)
    ax.set(title=f"{n_units} units", xlabel="Batches of washout", ylabel="Deviation in field (cm)")


def draw_losses(ax: Axes, found: Comparison, noises: Sequence[str]) -> None:
    """The loss in the field over batches, of networks with little noise."""
    shown = (
        ("first", found.exposed.losses["first"], {"color": "0.75", "lw": 2.2}),
        ("control group's first", found.control.losses["long"], {"color": "k", "lw": 0.9}),
        ("after short washout", found.exposed.losses["short"], {"color": COLORS[0], "lw": 0.9, "ls": "--"}),
        ("after long washout", found.exposed.losses["long"], {"color": COLORS[0], "lw": 0.9}),
    )
    for label, losses, style in shown:
        ax.plot(of_noise(losses, 0), label=label, **style)
    ax.legend(loc="upper right", handlelength=1.4, borderaxespad=0)
    ax.set(title=noises[0], ylim=(0, 1.2 * ax.get_ylim()[1]), xlabel="Batches in field", ylabel="Loss")


def draw_ratios(ax: Axes, found: Comparison, noises: Sequence[str]) -> None:
    """The loss in the field relative to that of the control group on the same trials."""
    for number in range(len(noises)):
        for name, style in (("short", "--"), ("long", "-")):
            losses = of_noise(found.exposed.losses[name], number)
            others = of_noise(found.control.losses[name], number)
            ax.plot(100 * losses / others, style, color=COLORS[number], lw=1)
    for name, style in (("short washout", "--"), ("long washout", "-")):
        ax.plot([], [], style, color=CONTROL, lw=1, label=name)
    ax.axhline(100, color="k", lw=0.6, zorder=0)
    ax.legend(loc="lower left", handlelength=1.8, borderaxespad=0)
    ax.set(ylim=(ax.get_ylim()[0] - 10, None), title="relative to control group")  # room for the legend
    ax.set(xlabel="Batches in field", ylabel="Loss (%)")


def draw_head_start(ax: Axes, results: Mapping[int, Comparison], least_saved: float) -> None:
    """What each network saves beside what it would save by a head start, with the gate of little noise."""
    most = 100 * max(float(np.max(found.shares["saved"]["short"])) for found in results.values()) + 3
    along = np.array([-1, 100 * least_saved, most])
    ax.fill_between(along, np.maximum(along, 100 * least_saved), most, color="0.92", lw=0, zorder=0)
    ax.plot([-1, most], [-1, most], color="0.6", lw=0.6, ls=":", zorder=0)
    for marker, found in zip(MARKERS, results.values(), strict=False):
        for name in ("short", "long"):
            pairs = zip(found.shares["head start"][name], found.shares["saved"][name], strict=True)
            for color, (expected, saved) in zip(COLORS, pairs, strict=True):
                fill = color if name == "long" else "w"
                ax.plot(100 * expected, 100 * saved, marker, ms=3.4, mfc=fill, mec=color, mew=0.8, ls="")
    for fill, label in (("w", "short washout"), (CONTROL, "long washout")):
        ax.plot([], [], "o", ms=3.4, mfc=fill, mec=CONTROL, mew=0.8, label=label)
    ax.legend(loc="lower right", handlelength=0.8)
    ax.set(xlim=(-1, most), ylim=(-1, most), xlabel="Head start alone would save (%)", ylabel="Saved (%)")


def draw_sizes(
    ax: Axes, results: Mapping[int, Comparison], what: str, label: str, noises: Sequence[str]
) -> None:
    """A share of all networks after the long washout, by number of units."""
    for at, (marker, found) in enumerate(zip(MARKERS, results.values(), strict=False)):
        for color, shares, shift in zip(COLORS, found.shares[what]["long"], (-0.1, 0.1), strict=True):
            places = at + shift + 0.05 * (np.arange(len(shares)) - (len(shares) - 1) / 2)
            ax.plot(places, 100 * shares, marker, ms=3.4, color=color, mew=0, ls="")
    for color, noise in zip(COLORS, noises, strict=False):
        ax.plot([], [], "o", ms=3.4, color=color, mew=0, label=noise)
    if noises:
        ax.legend(loc="center right", handlelength=0.8)
    ax.axhline(0, color="k", lw=0.6, zorder=0)
    ax.set_xticks(range(len(results)), [str(n_units) for n_units in results])
    ax.set(xlim=(-0.5, len(results) - 0.5), xlabel="Units", ylabel=label)
