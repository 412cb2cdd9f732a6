"""The figure of `balanced_spectrum.py`: eigenvalues of weights from excitatory and inhibitory units."""

import textwrap
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim.analysis.figures import figure_style, save_figure

BLUE, ORANGE = "#0072B2", "#E69F00"  # Okabe & Ito


def draw_figure(
    folder: Path, spectra: Mapping[str, np.ndarray], outlier: float, limits: tuple[float, float]
) -> list[Path]:
    """Draw the figure and write it as PNG and PDF.

    **Arguments:**

    - `folder`: where it is written; made if it does not exist.
    - `spectra`: by kind of weights, unbalanced ones first, eigenvalues [network, unit] relative to the
        radius of the circle, the largest first.
    - `outlier`: the expected eigenvalue of the first kind outside of the circle, relative to the radius.
    - `limits`: up to where the largest |eigenvalue| counts as within the circle, and from where as outside.

    **Returns:** the files.
    """
    with figure_style():
        figure, axes = plt.subplots(2, 2, figsize=(5.4, 4.4), layout="constrained")
        unbalanced = next(iter(spectra))
        draw_spectrum(axes[0, 0], unbalanced, spectra[unbalanced])
        axes[0, 0].plot(outlier, 0, "+", color=ORANGE, ms=9, zorder=-1, label="expected outlier")
        axes[0, 0].legend(loc="upper right", handlelength=1)
        axes[0, 0].set(xlim=(-2, 1.2 * outlier), ylim=(-4, 4))
        for ax, name in zip(axes.flat[1:3], ("balanced on average", "balanced rows"), strict=True):
            draw_spectrum(ax, name, spectra[name])
            ax.set(xlim=(-2.2, 2.2), ylim=(-2.2, 2.2))
        draw_largest(axes[1, 1], spectra, limits)
        for letter, ax in zip("abcd", axes.flat, strict=True):
            ax.set_title(letter, loc="left", fontweight="bold", fontsize=9)
        files = save_figure(figure, folder, "balanced_spectrum")
        plt.close(figure)
    return files


def written(name: str) -> str:
    """The name of a kind of weights, as the figure shows it."""
    return name.replace("mu_I", r"$\mu_I$")


def draw_spectrum(ax: Axes, name: str, spectra: np.ndarray) -> None:
    """The eigenvalues of all networks, those of the first in front, and the circle."""
    of_others = spectra[1:].ravel()
    ax.plot(np.real(of_others), np.imag(of_others), ".", ms=1.5, mew=0, color=BLUE, alpha=0.4)
    ax.plot(np.real(spectra[0]), np.imag(spectra[0]), ".", ms=3, mew=0, color="k")
    angle = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(angle), np.sin(angle), color=ORANGE, lw=1)
    ax.set_aspect("equal")
    ax.set(title=written(name), xlabel="Real part / radius", ylabel="Imaginary part / radius")


def draw_largest(ax: Axes, spectra: Mapping[str, np.ndarray], limits: tuple[float, float]) -> None:
    """The largest |eigenvalue| of each network by kind of weights, and its mean."""
    for at, found in enumerate(spectra.values()):
        largest = np.abs(found[:, 0])
        places = at + np.linspace(-0.25, 0.25, largest.size)
        ax.plot(largest, places, "o", ms=2, mew=0, color=BLUE, alpha=0.5)
        ax.plot(largest.mean(), at, "o", ms=4, mfc="w", color=BLUE)
    ax.axvspan(1 / limits[0], limits[0], color="0.88", lw=0, zorder=-1)
    ax.axvline(limits[1], color="k", lw=0.7, ls=(0, (3, 3)))
    ax.set_yticks(range(len(spectra)), [textwrap.fill(written(name), 13) for name in spectra])
    ax.set_xscale("log")
    ax.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    ax.minorticks_off()
    ax.invert_yaxis()
    ax.set(xlabel="Largest |eigenvalue| / radius")
