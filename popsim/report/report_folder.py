"""The folder of a report: what may be written there, figures as files and in the page, and the page."""

import base64
import dataclasses
import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim._shared.drawing import FailedDrawing, close_figures, try_to_draw
from popsim._shared.text_checks import as_path, count_text, one_line, size_text
from popsim.analysis.figures import figure_style, save_figure
from popsim.analysis.figures.style import layout_once
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.results import ResultTable, RunFigure
from popsim.report._figure_numbers import figure_csv
from popsim.report._html import Html, element, is_page, note, page_html, scroll_box, table
from popsim.store import CorruptDataError, MismatchError, RunFolder, SaveError
from popsim.store.files import check_replaceable, finished_name, is_of_system, raise_save_errors, write_file

__all__ = ["WrittenReport"]

REPORT, COMPARISON, FIGURES = "report.html", "comparison.html", "figures"
DAMAGE = (CorruptDataError, MismatchError)
"""Errors that a report raises: what is damaged is refused, other than what cannot be drawn."""
Draws = Mapping[str, Callable[[], Mapping[str, RunFigure] | FailedDrawing | None]]
"""By what a function draws, as messages name it: returns figures by file name, None for none."""


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


class ReportFolder:
    """A page in a folder that is made section by section, and its figures.

    `home` is the folder of the run or sweep, into which the report may be written, too.
    """

    def __init__(self, page: str, out: str | Path, *, home: Path | None = None):
        folder = as_path("out", out)
        _check_folder(folder, page, home)
        self.page, self.sections = folder / page, dict[str, Sequence[Html]]()
        self.figures: list[Path] = []

    def add_table(self, title: str, results: ResultTable, notes: Sequence[str] = ()) -> None:
        """Add a section of a table, or "None." if it has no rows, with notes below it."""
        shown = table(results, title) if results.rows else element("p", "None.")
        self.sections[title] = [shown, *map(note, notes)]

    def add_elements(self, title: str, subject: str, make: Callable[[], Sequence[Html]]) -> bool:
        """Add a section of what a function makes, if anything.

        Return whether the section holds what was made, not a note in its place.
        """
        made = try_to_draw(subject, make, passes=DAMAGE)
        is_failed = isinstance(made, FailedDrawing)
        if made:
            self.sections[title] = [failed_note(made)] if is_failed else made
        return bool(made) and not is_failed

    def add_figures(self, title: str, draws: Draws, introduction: str = "") -> None:
        """Draw figures, write them as PNG and PDF, close them, and add a section that shows them.

        What cannot be drawn is named by a warning, and by a note in its place. There is none without either.
        """
        shown: list[Html] = []
        self._make_folder()
        for subject, draw in draws.items():
            drawn = try_to_draw(subject, lambda draw=draw: _as_figures(draw()), passes=DAMAGE)
            if isinstance(drawn, FailedDrawing):
                shown.append(failed_note(drawn))
                continue
            try:
                for name, figure in drawn.items():
                    shown += self._add_figure(name, figure)
            finally:
                close_figures(drawn)
        if shown:
            about = [element("p", introduction)] if introduction else []
            self.sections[title] = [*about, element("div", *shown, attributes={"class": "figures"})]

    def _add_figure(self, name: str, figure: RunFigure) -> list[Html]:
        """Return the element of a figure, once written; a note if it fails."""
        path = self.page.parent / FIGURES / f"{name}.png"
        if path in self.figures:
            raise ValueError(f"`SECTIONS` must have figures of different names, got {name!r} again.")
        saved = try_to_draw(
            f"the figure {name!r}", lambda: self._save_and_embed(figure, name), passes=SaveError
        )
        if isinstance(saved, FailedDrawing):
            return [failed_note(saved)]
        self.figures.append(path)
        return saved

    def write(
        self, title: str, introduction: Sequence[Html], text: str, *, scripts: Sequence[str] = ()
    ) -> WrittenReport:
        """Write the page, whole or not at all; `text` is of the results."""
        self._make_folder()
        content = page_html(title, introduction, self.sections, scripts).encode()
        write_file(self.page, [content])
        return WrittenReport(self.page, len(content), self.figures, text)

    def _make_folder(self) -> None:
        with raise_save_errors(self.page.parent):
            self.page.parent.mkdir(parents=True, exist_ok=True)

    def _save_and_embed(self, run_figure: RunFigure, name: str) -> list[Html]:
        figure, folder = run_figure.figure, self.page.parent / FIGURES
        with raise_save_errors(folder), figure_style(), layout_once(figure):
            save_figure(figure, folder, name)
            alt = alt_text(figure, run_figure.title)
            kind, source = picture(figure, alt)
            files = _files(figure, name, kind)
        return [
            element(
                "figure",
                element("h3", run_figure.title),
                scroll_box(alt, source),
                element("figcaption", run_figure.caption),
                element("p", *files, attributes={"class": "files"}),
                attributes={"class": "broad"} if figure.get_size_inches()[0] > BROAD else {},
            )
        ]


def _check_folder(path: Path, page: str, home: Path | None) -> None:
    """Check that writing a report into a folder overwrites nothing else."""
    check_replaceable(path / page, is_page, kind="a report", overwrite=True, name="out")
    if home is not None and path.exists() and path.samefile(home):
        return
    if RunFolder(path).description.exists():
        raise ValueError(f"`out` must not be the folder of another run, got {path}.")
    if path.exists() and not path.is_dir():
        raise ValueError(f"`out` must be a folder, got {path}.")
    names = {file.name for file in path.iterdir() if not is_of_system(file.name)} if path.is_dir() else set()
    if not (path / page).exists() and not {finished_name(name) or name for name in names} <= {page, FIGURES}:
        raise ValueError(f"`out` must be an empty folder or hold a {page} of popsim, got {path}.")


LARGEST_SVG = 400_000  # bytes; above this a PNG is smaller, and browsers draw it sooner
PIXELS_PER_INCH = 96  # as CSS defines it
BROAD = 5.0  # inches; wider figures take two columns
ENLARGED = 1.5  # on screens that are wide enough


def picture(figure: Figure, alt: str) -> tuple[str, Html]:
    """Return the kind of a picture, SVG or, where that is large, PNG, and an element that embeds it."""
    kind, content = "svg", _encode(figure, "svg")
    if len(content) > LARGEST_SVG:
        kind, content = "png", _encode(figure, "png")
    form = {"svg": "svg+xml", "png": "png"}[kind]
    source = f"data:image/{form};base64,{base64.b64encode(content).decode()}"
    width, height = (round(PIXELS_PER_INCH * inches) for inches in figure.get_size_inches())
    look = {"style": f"min-width: {width}px; width: {round(ENLARGED * width)}px"}
    size = {"width": str(width), "height": str(height)}
    return kind, element("img", attributes={"src": source, "alt": alt, **size, **look})


def alt_text(figure: Figure, title: str) -> str:
    """Return the title of a figure, and what it plots against what, from its axis labels."""
    labels = [(ax.get_ylabel(), ax.get_xlabel()) for ax in figure.axes]
    relations = [f"{y} against {x}" for y, x in dict.fromkeys(labels) if x and y]
    return one_line(f"{title}: {'; '.join(relations)}") if relations else title


def _encode(figure: Figure, kind: str) -> bytes:
    """Save a figure as bytes that do not vary between calls."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "popsim"}):
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, dpi=2 * PIXELS_PER_INCH, metadata=metadata)
    return buffer.getvalue()


def _files(drawn: Figure, name: str, kind: str) -> list[Html]:
    """Return links to a figure as a picture, which `page.js` takes from the page, and to its numbers."""
    look = {"class": "picture", "download": f"{name}.{kind}", "hidden": "hidden"}
    text, step = figure_csv(drawn)
    thinned = f" (one point in {step})" if step > 1 else ""
    source = f"data:text/csv;base64,{base64.b64encode(text.encode()).decode('ascii')}"
    numbers = element("a", f"CSV{thinned}", attributes={"download": f"{name}.csv", "href": source})
    return [Html("Download "), element("a", kind.upper(), attributes=look), Html(" "), numbers]


def experiment_text(experiment: AbstractExperiment) -> Html:
    """Return the first paragraph on an experiment."""
    about = inspect.getdoc(type(experiment)) or ""
    return element("p", one_line(about.partition("\n\n")[0]))


def small_axes() -> tuple[Figure, Axes]:
    """Return a figure of the width of a column, and its axes."""
    return plt.subplots(figsize=(3.4, 2.8), layout="constrained")


def _as_figures(drawn: Any) -> dict[str, RunFigure] | FailedDrawing:
    return drawn if isinstance(drawn, FailedDrawing) else dict(drawn or {})


def failed_note(failed: FailedDrawing) -> Html:
    """Return a note in place of what could not be drawn."""
    return note(f"{str(failed)[:1].upper()}{str(failed)[1:]}.")
