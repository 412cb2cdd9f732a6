"""One page for all reports: its sections, figures as files and in the page, and the folder of both."""

import base64
import dataclasses
import functools
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
from popsim.experiments.results import RunFigure
from popsim.report._figure_numbers import figure_csv
from popsim.report._html import CHARTS, Html, element, is_page, note, page_html, scroll_box
from popsim.store import CorruptDataError, MismatchError, RunFolder, SaveError, files

__all__ = ["WrittenReport"]

FIGURES = "figures"
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


@dataclasses.dataclass(frozen=True)
class Figures:
    """A section of figures in `figure_style`; there is none if none is drawn."""

    draws: Draws
    introduction: str = ""


@dataclasses.dataclass(frozen=True)
class Charts:
    """A section of charts that scripts fill; there is none if nothing is made."""

    make: Callable[[], Sequence[Html]]


@dataclasses.dataclass(frozen=True)
class Page:
    """What a report says: the sections by their headings, and the results as text."""

    title: str
    introduction: Sequence[Html]
    sections: Mapping[str, Sequence[Html] | Figures | Charts]
    table: str

    def write(self, name: str, out: str | Path, home: Path | None = None) -> WrittenReport:
        """Draw the figures into the folder `out`, and write the page there, whole or not at all.

        What cannot be drawn is named by a warning, and by a note in its place. `home` is the folder of the
        run or sweep, into which the report may be written, too.
        """
        folder = as_path("out", out)
        _check_folder(folder, name, home)
        figures, sections, scripts = list[Path](), dict[str, Sequence[Html]](), ()
        for title, content in self.sections.items():
            if isinstance(content, Figures):
                sections[title] = _draw_figures(content, folder / FIGURES, figures)
            elif isinstance(content, Charts):
                made = try_to_draw("the charts that follow a choice", content.make, passes=DAMAGE)
                is_failed = isinstance(made, FailedDrawing)
                sections[title] = [_failed_note(made)] if is_failed else made
                scripts = CHARTS if made and not is_failed else ()
            else:
                sections[title] = content
        shown = {title: elements for title, elements in sections.items() if elements}
        page = page_html(self.title, self.introduction, shown, scripts).encode()
        with files.raise_save_errors(folder):
            files.make_folder(folder, parents=True)
        files.write_file(folder / name, [page])
        return WrittenReport(folder / name, len(page), figures, self.table)


def _draw_figures(section: Figures, folder: Path, written: list[Path]) -> list[Html]:
    """Draw figures, write them as PNG and PDF, close them, and return the elements that show them."""
    shown: list[Html] = []
    for subject, draw in section.draws.items():
        with figure_style():
            drawn = try_to_draw(subject, lambda draw=draw: _as_figures(draw()), passes=DAMAGE)
        if isinstance(drawn, FailedDrawing):
            shown.append(_failed_note(drawn))
            continue
        try:
            for name, figure in drawn.items():
                path = folder / f"{name}.png"
                if path in written:
                    raise ValueError(f"`SECTIONS` must have figures of different names, got {name!r} again.")
                save = functools.partial(_save_and_embed, figure, folder, name)
                saved = try_to_draw(f"the figure {name!r}", save, passes=SaveError)
                if isinstance(saved, FailedDrawing):
                    shown.append(_failed_note(saved))
                    continue
                written.append(path)
                shown += [] if figure.repeats else [saved]
        finally:
            close_figures(drawn)
    about = [element("p", section.introduction)] if section.introduction else []
    return [*about, element("div", *shown, attributes={"class": "figures"})] if shown else []


def _as_figures(drawn: Any) -> dict[str, RunFigure] | FailedDrawing:
    return drawn if isinstance(drawn, FailedDrawing) else dict(drawn or {})


def _failed_note(failed: FailedDrawing) -> Html:
    return note(f"{str(failed)[:1].upper()}{str(failed)[1:]}.")


def _save_and_embed(run_figure: RunFigure, folder: Path, name: str) -> Html:
    """Write a figure, and return the element that shows it."""
    figure = run_figure.figure
    with files.raise_save_errors(folder), figure_style(), layout_once(figure):
        save_figure(figure, folder, name)
        alt = alt_text(figure, run_figure.title)
        kind, source = picture(figure, alt)
        links = _files(figure, name, kind)
    return element(
        "figure",
        element("h3", run_figure.title),
        scroll_box(alt, source),
        element("figcaption", run_figure.caption),
        element("p", *links, attributes={"class": "files"}),
        attributes={"class": "broad"} if figure.get_size_inches()[0] > BROAD else {},
    )


def _check_folder(path: Path, page: str, home: Path | None) -> None:
    """Check that writing a report into a folder overwrites nothing else."""
    files.check_replaceable(path / page, is_page, kind="a report", overwrite=True, name="out")
    if home is not None and path.exists() and path.samefile(home):
        return
    if RunFolder(path).description.exists():
        raise ValueError(f"`out` must not be the folder of another run, got {path}.")
    if path.exists() and not path.is_dir():
        raise ValueError(f"`out` must be a folder, got {path}.")
    names = [file.name for file in path.iterdir()] if path.is_dir() else []
    there = {files.finished_name(name) or name for name in names if not files.is_of_system(name)}
    if not (path / page).exists() and not there <= {page, FIGURES}:
        raise ValueError(f"`out` must be an empty folder or hold a {page} of popsim, got {path}.")


LARGEST_SVG = 400_000  # bytes; above this a PNG is smaller, and browsers draw it sooner
PIXELS_PER_INCH = 96  # as CSS defines it
BROAD = 5.0  # inches; wider figures take two columns
ENLARGED = 1.5  # on screens that are wide enough


def picture(figure: Figure, alt: str) -> tuple[str, Html]:
    """Return the kind of a picture, SVG or, where that is large, PNG, and an element that embeds it."""
    kind, form, content = "svg", "svg+xml", _encode(figure, "svg")
    if len(content) > LARGEST_SVG:
        kind, form, content = "png", "png", _encode(figure, "png")
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
    buffer, metadata = io.BytesIO(), {"Date": None} if kind == "svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": "popsim"}):
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
