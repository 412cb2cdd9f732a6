"""Figures embedded in pages, and the folder of a report."""

import base64
import contextlib
import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from popsim._drawing import FailedDrawing, close_figures, try_to_draw
from popsim._text_checks import check_path, count_text, one_line
from popsim._text_tables import size_text
from popsim.analysis.figures import figure_style, save_figure
from popsim.analysis.figures.style import is_figure, layout_once
from popsim.experiments.run_figure import RunFigure
from popsim.report._figure_numbers import figure_csv
from popsim.report._html import Html, element, figure, file_link, is_page, note
from popsim.store import CorruptDataError, MismatchError, RunFolder, SaveError
from popsim.store.files import check_replaceable, files_below, finished_name, is_of_system, saving

__all__ = ["WrittenReport"]


@dataclasses.dataclass(frozen=True)
class WrittenReport:
    """A report: the page, its figures, and the table of results.

    - `page`: the HTML file.
    - `n_bytes`: the size of the page.
    - `figures`: the PNG files, each with a PDF beside it.
    - `table`: the results as text.
    """

    page: Path
    n_bytes: int
    figures: list[Path]
    table: str

    def __repr__(self) -> str:
        figures = count_text(len(self.figures), "figure")
        return f"WrittenReport({str(self.page)!r}: {size_text(self.n_bytes)}, {figures})"


REPORT, COMPARISON, FIGURES = "report.html", "comparison.html", "figures"


def check_report_folder(path: Path, page: str, *, home: Path | None = None) -> None:
    """Check that writing a report into a folder overwrites nothing else.

    **Arguments:**

    - `path`: the folder.
    - `page`: the file name of the page.
    - `home`: the folder of the run or sweep, into which the report may be written; None for none.
    """
    check_path("out", path)
    check_replaceable(path / page, is_page, kind="a report", overwrite=True, name="out")
    if home is not None and path.exists() and path.samefile(home):
        return
    if RunFolder(path).description.exists():
        raise ValueError(f"`out` must not be the folder of another run, got {path}.")
    if path.exists() and not path.is_dir():
        raise ValueError(f"`out` must be a folder, got {path}.")
    if path.is_dir() and not (path / page).exists() and not _is_left_over(path):
        raise ValueError(f"`out` must be an empty folder or hold a {page} of popsim, got {path}.")


def _is_left_over(path: Path) -> bool:
    """Whether a folder holds nothing but figures and an unfinished page of a report of popsim."""
    left_over = [file for file in path.iterdir() if not is_of_system(file.name)]
    left_over = [file for file in left_over if finished_name(file.name) not in (REPORT, COMPARISON)]
    if not left_over:
        return True
    with contextlib.suppress(CorruptDataError):
        figures = [file for _, file in files_below(path / FIGURES)]
        written = all(is_figure(file) or finished_name(file.name) is not None for file in figures)
        return [file.name for file in left_over] == [FIGURES] and written
    return False


def make_report_folder(path: Path) -> None:
    """Create the folder if missing; raise `SaveError` if that fails."""
    with saving(path):
        path.mkdir(parents=True, exist_ok=True)


DAMAGE = (CorruptDataError, MismatchError)
"""Errors that a report raises: what is damaged is refused, other than what cannot be drawn."""

LARGEST_SVG = 400_000  # bytes; above this a PNG is smaller, and browsers draw it sooner
PIXELS_PER_INCH = 96  # as CSS defines it
BROAD = 5.0  # inches; wider figures take two columns
ENLARGED = 1.5  # on screens that are wide enough


def picture(figure: Figure, alt: str) -> Html:
    """Return an element that embeds a figure.

    It is SVG, which keeps text as text, or a PNG with two pixels per screen pixel if the SVG is large, as
    with thousands of lines.

    **Arguments:**

    - `figure`: a matplotlib figure.
    - `alt`: the alternative text.
    """
    kind, content = "svg+xml", _encode(figure, "svg")
    if len(content) > LARGEST_SVG:
        kind, content = "png", _encode(figure, "png")
    width = round(PIXELS_PER_INCH * figure.get_size_inches()[0])
    height = round(PIXELS_PER_INCH * figure.get_size_inches()[1])
    return element(
        "img",
        attributes={
            "src": f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}",
            "alt": alt,
            "width": str(width),
            "height": str(height),
            "style": f"min-width: {width}px; width: {round(ENLARGED * width)}px",
        },
    )


def alt_text(figure: Figure, title: str) -> str:
    """Return the title of a figure, and what it plots against what, from its axis labels."""
    labels = [(ax.get_ylabel(), ax.get_xlabel()) for ax in figure.axes]
    relations = [f"{y} against {x}" for y, x in dict.fromkeys(labels) if x and y]
    return one_line(f"{title}: {'; '.join(relations)}") if relations else title


def _encode(figure: Figure, kind: str) -> bytes:
    """Save a figure as bytes that do not vary between calls."""
    buffer = io.BytesIO()
    with figure_style(), matplotlib.rc_context({"svg.hashsalt": "popsim"}):
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, dpi=2 * PIXELS_PER_INCH, metadata=metadata)
    return buffer.getvalue()


def save_and_embed(
    figures: Mapping[str, RunFigure | FailedDrawing], folder: Path
) -> tuple[list[Path], list[Html]]:
    """Write figures as PNG and PDF, embed them in elements, and close them.

    **Arguments:**

    - `figures`: the figures by file name, and why those are missing that were not drawn.
    - `folder`: the folder of the files; created if missing.

    **Returns:** the paths of the PNG files, and the elements of all figures except those that repeat others;
    in place of a figure that cannot be drawn, which a warning names, a note that says why.

    **Raises:** `SaveError` if they cannot be written.
    """
    paths, shown = [], []
    try:
        for name, run_figure in figures.items():
            if isinstance(run_figure, FailedDrawing):
                embedded = run_figure
            else:
                embedded = try_to_draw(
                    figure_name(name),
                    lambda name=name, run_figure=run_figure: _save_and_embed(run_figure, folder, name),
                    passes=SaveError,
                )
            if isinstance(embedded, FailedDrawing):
                shown.append(failed_figure_note(embedded))
                continue
            paths.append(folder / f"{name}.png")
            shown += embedded
    finally:
        close_figures(figures)
    return paths, shown


def _save_and_embed(run_figure: RunFigure, folder: Path, name: str) -> list[Html]:
    """Write a figure, and return its element; none if it repeats others."""
    with saving(folder), figure_style(), layout_once(run_figure.figure):
        save_figure(run_figure.figure, folder, name)
        if run_figure.repeats:
            return []
        alt = alt_text(run_figure.figure, run_figure.title)
        source = picture(run_figure.figure, alt)
        files = _files(run_figure.figure, name, kind="SVG" if "data:image/svg" in source else "PNG")
    return [
        figure(
            source,
            alt=alt,
            title=run_figure.title,
            caption=run_figure.caption,
            files=files,
            broad=bool(run_figure.figure.get_size_inches()[0] > BROAD),
        )
    ]


def _files(drawn: Figure, name: str, *, kind: str) -> list[Html]:
    """Return links to a figure as a picture, which `page.js` takes from the page, and to its numbers."""
    look = {"class": "picture", "download": f"{name}.{kind.lower()}", "hidden": "hidden"}
    text, step = figure_csv(drawn)
    thinned = f" (one point in {step})" if step > 1 else ""
    numbers = file_link(f"CSV{thinned}", f"{name}.csv", text.encode(), "text/csv")
    return [Html("Download "), element("a", kind, attributes=look), Html(" "), numbers]


def figure_name(name: str) -> str:
    """Return what a figure is called in messages."""
    return f"the figure {name!r}"


def failed_figure_note(failed: FailedDrawing) -> Html:
    """Return a note in place of what could not be drawn."""
    return note(f"{str(failed)[:1].upper()}{str(failed)[1:]}.")
