"""The style of figures."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
import matplotlib.style
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim._text_checks import check_path
from popsim.store.files import atomic_file, has_mark, make_folder

__all__ = ["STYLE_SHEET", "figure_style", "direction_colors", "save_figure"]

# Okabe & Ito 2008, Color Universal Design: distinct for all common types of colour vision.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")

STYLE_SHEET = "popsim.analysis.figures.popsim"
"""Name of the style for `matplotlib.pyplot.style.use`: popsim.mplstyle beside this file."""


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Use popsim's style within this block, and restore the user's settings after it.

    For a whole script: `matplotlib.pyplot.style.use(popsim.analysis.figures.STYLE_SHEET)`.
    """
    with matplotlib.style.context(STYLE_SHEET):
        yield


def direction_colors(angles: Float[np.ndarray, " trial"]) -> Float[np.ndarray, "trial 4"]:
    """Return a colour per direction (rad), from a cyclic map darkened so that its pale end shows on white."""
    colors = matplotlib.colormaps["twilight_shifted"](np.mod(angles, 2 * np.pi) / (2 * np.pi))
    return colors * [0.8, 0.8, 0.8, 1.0]


def extend_limits(ax: Axes, *, x: Sequence[float] = (), y: Sequence[float] = ()) -> None:
    """Extend the limits of axes to these coordinates, without a margin unless data lie farther out.

    Unlike limits that are set, they still grow with later drawings.
    """
    ax.update_datalim([(each, 0.0) for each in x], updatey=False)
    ax.update_datalim([(0.0, each) for each in y], updatex=False)
    for artist in [*ax.lines, *ax.collections, *ax.images][:1]:
        artist.sticky_edges.x.extend(x)
        artist.sticky_edges.y.extend(y)
    ax.autoscale_view()


@contextlib.contextmanager
def layout_once(figure: Figure) -> Iterator[None]:
    """Lay out a figure once for all files written in this context: layout takes as long as drawing."""
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


_WRITTEN_BY = {"Creator": "popsim"}  # which all three formats have: PNG as a text, PDF and SVG as metadata
_MARKS = {
    b"\x89PNG\r\n\x1a\n": b"tEXtCreator\0popsim",
    b"%PDF-": b"/Creator (popsim)",
    b"<?xml": b"<dc:title>popsim</dc:title>",
}


def is_figure(path: Path) -> bool:
    """Whether popsim wrote a file, as a figure."""
    return any(has_mark(path, beginning, mark) for beginning, mark in _MARKS.items())


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as its suffix says, PNG, PDF or SVG, with the mark that `is_figure` looks for.

    **Raises:** `SaveError` if it cannot be written; an existing file is then unchanged.
    """
    with atomic_file(path) as partial, partial.open("xb") as file:
        figure.savefig(file, format=path.suffix[1:], metadata=_WRITTEN_BY)


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as PDF with editable text, and return both paths.

    **Raises:** `SaveError` if the figure cannot be written; existing files are then unchanged.
    """
    check_path("folder", folder / name)
    make_folder(folder, parents=True)
    paths = [folder / f"{name}.{ending}" for ending in ("png", "pdf")]
    with layout_once(figure):
        for path in paths:
            write_figure(figure, path)
    return paths
