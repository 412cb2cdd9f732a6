"""The figure of `bandit_regret.py`: rewards over training, and regrets beside those of players."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

COLORS = {
    "networks": "#0072B2",
    "paid by a coin": "#D55E00",
    "untrained": "0.6",
    "optimal": "k",
    "Thompson": "#009E73",
    "greedy": "#CC79A7",
}  # Okabe & Ito
N_SMOOTHED = 50  # batches


def draw_figure(
    folder: Path,
    rewards: Mapping[str, np.ndarray],
    regrets: Mapping[str, np.ndarray],
    players: Mapping[str, np.ndarray],
    optimum: float,
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `rewards`: by kind of network, the mean reward of a choice [batch, member] in training.
    - `regrets`: by kind of network, the regret of each choice [member, bandit, choice] in the test.
    - `players`: the same of players [bandit, choice].
    - `optimum`: the expected regret of the optimal player.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_rewards(axes[0], rewards)
        draw_courses(axes[1], regrets["networks"], players)
        draw_sums(axes[2], {**players, **regrets}, optimum)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "bandit_regret")
        plt.close(figure)
    return files


def draw_rewards(ax: Axes, rewards: Mapping[str, np.ndarray]) -> None:
    """Learning curves of all members, smoothed."""
    for name, courses in rewards.items():
        n_means = len(courses) // N_SMOOTHED
        means = courses[: n_means * N_SMOOTHED].reshape(n_means, N_SMOOTHED, -1).mean(axis=1)
        ax.plot(N_SMOOTHED * np.arange(1, n_means + 1), means, color=COLORS[name], lw=0.7)
        ax.plot([], [], color=COLORS[name], lw=1, label=name)
    ax.legend(loc="center right", handlelength=1.2, labelspacing=0.2)
    ax.set(xlim=(0, None), xlabel="Training batch", ylabel="Reward of a choice")


def draw_courses(ax: Axes, regrets: np.ndarray, players: Mapping[str, np.ndarray]) -> None:
    """The sum of the regrets up to each choice, of each network and of players."""
    choices = np.arange(1, regrets.shape[-1] + 1)
    for course in regrets.mean(axis=1).cumsum(axis=1):
        ax.plot(choices, course, color=COLORS["networks"], lw=0.8)
    ax.plot([], [], color=COLORS["networks"], lw=1, label="networks")
    for name, of_player in players.items():
        ax.plot(choices, of_player.mean(axis=0).cumsum(), color=COLORS[name], lw=1, ls="--", label=name)
    ax.legend(loc="lower right", handlelength=1.6, labelspacing=0.2)
    ax.set(xlim=(0, len(choices)), ylim=(0, None), xlabel="Choice", ylabel="Regret so far")


def draw_sums(ax: Axes, regrets: Mapping[str, np.ndarray], optimum: float) -> None:
    """The regret of a bandit, of each member and player, with two standard errors."""
    n_choices = regrets["networks"].shape[-1]
    for place, (name, of_kind) in enumerate(regrets.items()):
        sums = np.atleast_2d(of_kind.sum(axis=-1))
        errors = 2 * sums.std(axis=1) / sums.shape[1] ** 0.5
        places = place + 0.15 * (np.arange(len(sums)) - (len(sums) - 1) / 2)
        ax.errorbar(places, sums.mean(axis=1), errors, fmt="o", ms=3, lw=0.8, color=COLORS[name])
    for name, regret, place in (("optimum", optimum, 0.35), ("chance", n_choices / 6, 0.02)):
        ax.axhline(regret, color="k", lw=0.8, ls=(0, (3, 3)))
        ax.text(place, regret, name, va="bottom", fontsize=7, transform=ax.get_yaxis_transform())
    ax.set(
        yscale="log", xlim=(-0.5, len(regrets) - 0.5), ylim=(1.4, 25), ylabel=f"Regret of {n_choices} choices"
    )
    ax.set_yticks([2, 3, 5, 10, 20], ["2", "3", "5", "10", "20"])
    ax.minorticks_off()
    ax.set_xticks(range(len(regrets)), list(regrets), rotation=40, ha="right")
