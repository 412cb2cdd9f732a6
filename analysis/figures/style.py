"""The style of figures."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim._shared.text_checks import check_path
from popsim.analysis._arrays import AnyArray
from popsim.analysis.statistics.intervals import mean_interval
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
    ax.update_datalim([(place, 0.0) for place in x], updatey=False)
    ax.update_datalim([(0.0, place) for place in y], updatex=False)
    for artist in [*ax.lines, *ax.collections, *ax.images][:1]:
        artist.sticky_edges.x.extend(x)
        artist.sticky_edges.y.extend(y)
    ax.autoscale_view()


def color_of(index: int) -> str:
    """Return the colour of a member, unit or channel; colours repeat."""
    return COLORS[index % len(COLORS)]


def name_of(names: Sequence[str] | None, index: int, kind: str = "member") -> str:
    """Return a name for the legend: by default the kind of thing and its number."""
    return f"{kind} {index}" if names is None else names[index]


def draw_signed_map(
    ax: Axes,
    values: Float[np.ndarray, "row column"],
    *,
    label: str,
    limit: float | None = None,
    extent: tuple[float, float, float, float] | None = None,
) -> None:
    """Draw a heat map that is white at zero, with a colour bar beside the axes."""
    largest = limit if limit is not None else float(np.abs(values).max()) or 1.0
    look: Any = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest, "extent": extent}
    image = ax.imshow(values, interpolation="nearest", aspect="auto", **look)
    extend_limits(ax)  # an image sets the limits of its axes
    ax.figure.colorbar(image, ax=ax, label=label)


def draw_band(
    ax: Axes, x: Shaped[AnyArray, " x"], interval: Any, *, color: str | None, label: str, alpha: float = 0.25
) -> None:
    """Draw estimate, low and high of an `Interval` or `LearningCurve` as a line with a band."""
    mean, low, high = interval[:3]
    (line,) = ax.plot(x, mean, color=color, label=label)
    ax.fill_between(x, low, high, color=line.get_color(), alpha=alpha, linewidth=0)


def draw_members_and_spread(
    ax: Axes, x: Shaped[AnyArray, " x"], values: Float[np.ndarray, "member x"]
) -> None:
    """Draw a thin line for each member, and a band of one standard deviation over members."""
    ax.plot(x, values.T, color=COLORS[0], linewidth=0.4, alpha=0.5)
    if len(values) > 1:
        _, low, high = mean_interval(values, method="standard deviation")
        ax.fill_between(x, low, high, color=COLORS[0], alpha=0.2, linewidth=0)


def draw_member_points(
    ax: Axes, x: Any, y: Any, error: Any, *, names: Sequence[str] | None, fmt: str = "o-", **look: Any
) -> None:
    """Draw points with error bars, (*member, point), with a colour and a name for each member."""
    columns = np.broadcast_arrays(*np.atleast_2d(x, y, error))
    for index, points in enumerate(zip(*columns, strict=True)):
        style = {"ms": 3, "lw": 0.9, "color": color_of(index), "label": name_of(names, index)}
        ax.errorbar(*points, fmt=fmt, **style | look)


def draw_interval(ax: Axes, x: Any, interval: Any, **look: Any) -> None:
    """Draw estimates with the bars of their `Interval`."""
    mean, low, high = np.atleast_1d(*interval)
    ax.errorbar(x, mean, [mean - low, high - mean], fmt="o", ms=4, color=COLORS[0], lw=1.4, **look)


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
