"""The look of popsim's figures: readable at column width, colours that everybody can tell apart."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

# Okabe & Ito 2008, Color Universal Design: told apart by all common types of colour vision.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")

_STYLE = {
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "axes.prop_cycle": matplotlib.cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8,
    "figure.dpi": 150,
    "font.family": "sans-serif",
    "font.sans-serif": ["Arial", "Helvetica", "DejaVu Sans"],
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "svg.fonttype": "none",
    "xtick.labelsize": 7,
    "xtick.major.width": 0.7,
    "ytick.labelsize": 7,
    "ytick.major.width": 0.7,
}


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Figures made inside this block have popsim's style; the user's settings are as before after it."""
    with matplotlib.rc_context(_STYLE):
        yield


def direction_colors(angles: Float[np.ndarray, " trial"]) -> Float[np.ndarray, "trial 4"]:
    """One colour for each direction (rad), on a cyclic map, darkened so that its pale end shows on white."""
    colors = matplotlib.colormaps["twilight_shifted"](np.mod(angles, 2 * np.pi) / (2 * np.pi))
    return colors * [0.8, 0.8, 0.8, 1.0]


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as PDF with editable text; the paths of both."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{ending}" for ending in ("png", "pdf")]
    for path in paths:
        figure.savefig(path)
    return paths
