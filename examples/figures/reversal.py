"""The figure of `reversal.py`: choices around reversals, trials to switch, and accuracies."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure
from references.reversal import switch_times

COLORS = ("#0072B2", "#009E73", "#D55E00")  # Okabe & Ito
BEFORE, AFTER = 5, 12  # choices around a reversal


@dataclasses.dataclass(frozen=True)
class Choices:
    """Choices [member, trial, choice], and the arm that was good then."""

    chosen: np.ndarray
    good_arms: np.ndarray

    def switch_times(self) -> list[np.ndarray]:
        """How many choices after each reversal the old arm is still chosen, by member."""
        return [switch_times(*pair) for pair in zip(self.chosen, self.good_arms, strict=True)]

    def accuracies(self) -> np.ndarray:
        """The fraction of choices of the good arm [member, trial]."""
        return (self.chosen == self.good_arms).mean(axis=-1)

    def around_reversals(self) -> np.ndarray:
        """How often the arm that becomes good is chosen [member, choice], `BEFORE` to `AFTER` reversals."""
        courses = []
        for chosen, good in zip(self.chosen, self.good_arms, strict=True):
            trials, times = np.nonzero(np.diff(good, axis=1))
            within = (times + 1 >= BEFORE) & (times + 1 + AFTER <= good.shape[1])
            trials, times = trials[within], times[within] + 1
            at = times[:, None] + np.arange(-BEFORE, AFTER)
            courses.append((chosen[trials[:, None], at] == good[trials, times][:, None]).mean(axis=0))
        return np.stack(courses)


def draw_figure(
    folder: Path, found: Mapping[float, Choices], observers: Mapping[float, Choices]
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `found`, `observers`: by hazard rate, the choices of networks, and of the observer.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_courses(axes[0], found, observers)
        draw_switches(axes[1], found, observers)
        draw_accuracies(axes[2], found, observers)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "reversal")
        plt.close(figure)
    return files


def draw_courses(ax: Axes, found: Mapping[float, Choices], observers: Mapping[float, Choices]) -> None:
    """How often the new good arm is chosen around reversals: networks, and dashed the observer."""
    choices = np.arange(-BEFORE, AFTER)
    for color, (rate, of_networks) in zip(COLORS, found.items(), strict=True):
        ax.plot(choices, of_networks.around_reversals().T, color=color, lw=0.7)
        ax.plot(choices, observers[rate].around_reversals()[0], color="k", lw=0.8, ls=(0, (3, 3)))
        ax.plot([], [], color=color, lw=1, label=f"{rate}")
    ax.legend(title="hazard rate", loc="lower right", handlelength=1.2, labelspacing=0.2)
    ax.set(ylim=(0, 1), xlabel="Choices after a reversal", ylabel="Choice of the new good arm")


def draw_switches(ax: Axes, found: Mapping[float, Choices], observers: Mapping[float, Choices]) -> None:
    """The mean trials to switch of each member over those of the observer."""
    highest = 1.2 * max(observer.switch_times()[0].mean() for observer in observers.values())
    ax.plot([0, highest], [0, highest], color="k", lw=0.8, ls=(0, (3, 3)))
    for color, (rate, of_networks) in zip(COLORS, found.items(), strict=True):
        means = [times.mean() for times in of_networks.switch_times()]
        ax.plot(
            len(means) * [observers[rate].switch_times()[0].mean()], means, "o", ms=4, mfc="none", color=color
        )
    ax.set(xlim=(0, highest), ylim=(0, highest), xlabel="Trials to switch, observer", ylabel="Networks")


def draw_accuracies(ax: Axes, found: Mapping[float, Choices], observers: Mapping[float, Choices]) -> None:
    """How often each member chooses the good arm, by hazard rate, and dashed the observer."""
    for color, (rate, of_networks) in zip(COLORS, found.items(), strict=True):
        accuracies = of_networks.accuracies().mean(axis=-1)
        ax.plot(len(accuracies) * [rate], accuracies, "o", ms=4, mfc="none", color=color)
    of_observer = [observer.accuracies().mean() for observer in observers.values()]
    ax.plot(list(observers), of_observer, color="k", lw=0.8, ls=(0, (3, 3)), label="observer")
    ax.legend(handlelength=1.6)
    ax.set(xscale="log", ylim=(0.5, 1), xlabel="Hazard rate", ylabel="Choices of the good arm")
    ax.set_xticks(list(observers), [f"{rate}" for rate in observers])
    ax.minorticks_off()
