"""A figure as a picture inside a page."""

import base64
import io

import matplotlib
from matplotlib.figure import Figure

from popsim.analysis.figures import figure_style
from popsim.report.html import Html, element

LARGEST_SVG = 400_000  # bytes; of what is larger a PNG is smaller, and browsers draw it sooner
PIXELS_PER_INCH = 96  # of CSS
ENLARGED = 1.5  # on a screen that is wide enough


def picture(figure: Figure, alt: str) -> Html:
    """An element that shows a figure, with all its data inside.

    It is SVG, whose text stays text, or where that is large, as of pictures with thousands of lines, PNG with
    two pixels for each of the screen.

    **Arguments:**

    - `figure`: of matplotlib.
    - `alt`: what is read out in its place.
    """
    kind, content = "svg+xml", _saved(figure, "svg")
    if len(content) > LARGEST_SVG:
        kind, content = "png", _saved(figure, "png")
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
    """The title of a figure, and what is drawn against what, from the labels of its axes."""
    drawn = [(ax.get_ylabel(), ax.get_xlabel()) for ax in figure.axes]
    said = [f"{y} against {x}" for y, x in dict.fromkeys(drawn) if x and y]
    return " ".join(f"{title}: {'; '.join(said)}".split()) if said else title


def _saved(figure: Figure, kind: str) -> bytes:
    """The same bytes whenever it is drawn."""
    buffer = io.BytesIO()
    with figure_style(), matplotlib.rc_context({"svg.hashsalt": "popsim"}):
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, dpi=2 * PIXELS_PER_INCH, metadata=metadata)
    return buffer.getvalue()
