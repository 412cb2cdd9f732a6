"""The figure of `low_rank_dynamics.py`: rest states, latent variables and choices of networks of low rank."""

import dataclasses
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.behaviour import choice_fractions
from popsim.analysis.figures import figure_style, save_figure
from references import low_rank_dynamics as reference

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "0.6"  # Okabe & Ito
DRAWN_MEMBER, N_DRAWN = 0, 60  # whose latent variables are drawn, in how many trials


@dataclasses.dataclass(frozen=True)
class RestingNetworks:
    """Where networks of rank one with a random part rest.

    - `overlaps` [overlap]: of their two vectors.
    - `kappas`, `variances` [overlap, network]: their latent variable, and the variance of their units.
    - `gain`: of the random part.
    """

    overlaps: np.ndarray
    kappas: np.ndarray
    variances: np.ndarray
    gain: float


@dataclasses.dataclass(frozen=True)
class Decisions:
    """What networks did in the same trials.

    - `coherences` [trial].
    - `outputs` [member, trial, time, output]: of the networks.
    - `reduced`, `shuffled`: the same of their reductions, with n as it is and with its entries shuffled.
    - `kappas` [member, trial, time, mode]: the latent variables of the reductions.
    """

    coherences: np.ndarray
    outputs: np.ndarray
    reduced: np.ndarray
    shuffled: np.ndarray
    kappas: np.ndarray


def chose_right(outputs: np.ndarray) -> np.ndarray:
    """Whether the second output [..., time, output] is the larger one at the end of a trial."""
    return outputs[..., -1, 1] > outputs[..., -1, 0]


def draw_figure(folder: Path, resting: RestingNetworks, decisions: Decisions) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `resting`: networks of rank one.
    - `decisions`: of trained networks of rank two.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(1, 3, figsize=(7.0, 2.4), layout="constrained")
        draw_rest(axes[0], resting)
        draw_latent(axes[1], decisions)
        draw_choices(axes[2], decisions)
        for letter, ax in zip("abc", axes, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "low_rank_dynamics")
        plt.close(figure)
    return files


def draw_rest(ax: Axes, resting: RestingNetworks) -> None:
    """Kappa and the standard deviation of units over the overlap, beside the theory."""
    fine = np.linspace(1, resting.overlaps.max() * 1.05, 150)
    below = np.array([resting.overlaps.min() * 0.8, 1])
    deviations = [reference.variance_at_rest(overlap) ** 0.5 for overlap in fine]
    kappas = [reference.kappa_at_rest(overlap, resting.gain) for overlap in fine]
    found = {"deviation of units": resting.variances**0.5, "kappa": resting.kappas}
    for color, (name, values), theory in zip(
        (ORANGE, BLUE), found.items(), (deviations, kappas), strict=True
    ):
        ax.plot(fine, theory, color=color, lw=1, label=f"{name}, theory")
        places = np.repeat(resting.overlaps[:, None], values.shape[1], axis=1)
        style = {"ms": 3, "mfc": "none", "mew": 0.7, "clip_on": False}
        ax.plot(places.ravel(), values.ravel(), "o", mec=color, label="networks", **style)
    ax.plot(below, [0, 0], color=BLUE, lw=1)
    ax.legend(loc="upper left", handlelength=1.4, labelspacing=0.2)
    ax.set(xlim=(below[0], fine[-1]), ylim=(0, 3.2), xlabel="Overlap of m and n", ylabel="At rest")


def draw_latent(ax: Axes, decisions: Decisions) -> None:
    """The latent variables of one member over trials, in a colour for each choice."""
    kappas = decisions.kappas[DRAWN_MEMBER, :N_DRAWN]
    is_right = chose_right(decisions.outputs[DRAWN_MEMBER, :N_DRAWN])
    for color, name, chosen in ((ORANGE, "left", ~is_right), (BLUE, "right", is_right)):
        for course in kappas[chosen]:
            ax.plot(*course.T, color=color, lw=0.5, alpha=0.5)
        ax.plot(*kappas[chosen, -1].T, "o", ms=2.2, mew=0, color=color, label=f"chose {name}")
    ax.plot(0, 0, "k+", ms=5, label="start")
    ax.legend(loc="best", handlelength=1, labelspacing=0.2)
    ax.set(xlabel="Latent variable 1", ylabel="Latent variable 2")


def draw_choices(ax: Axes, decisions: Decisions) -> None:
    """The fraction of choices to the right: of networks, of their reductions, and with n shuffled."""
    curves = {
        "n shuffled": (decisions.shuffled, {"color": GREY, "lw": 0.8}),
        "reductions": (decisions.reduced, {"color": GREEN, "lw": 0.8}),
        "networks": (decisions.outputs, {"color": "k", "ls": "", "marker": "o", "ms": 2.6, "mfc": "none"}),
    }
    for name, (outputs, style) in curves.items():
        curve = choice_fractions(decisions.coherences, chose_right(outputs))
        for i, fraction in enumerate(curve.fraction):
            ax.plot(curve.coherence, fraction, label=name if i == 0 else None, **style)
    ax.legend(loc="center left", handlelength=1.4, labelspacing=0.2)
    ax.set(ylim=(-0.03, 1.03), xlabel="Coherence", ylabel="Fraction that chose right")
