"""Drawing that may fail: a warning of one line names what could not be drawn, and the rest continues."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from popsim._shared.checks import warn_caller
from popsim._shared.text_checks import error_text

Drawn = TypeVar("Drawn")


class FailedDrawing(NamedTuple):
    """What could not be drawn, and why."""

    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.subject} could not be drawn: {self.reason}"


def try_to_draw(
    subject: str, draw: Callable[[], Drawn], *, passes: type[Exception] | tuple[type[Exception], ...] = ()
) -> Drawn | FailedDrawing:
    """Return what a function draws, or warn in one line that it failed, and return why."""
    open_before = _open_figures()
    try:
        return draw()
    except passes:
        raise
    except Exception as error:
        for number in {*_open_figures()} - {*open_before}:
            sys.modules["matplotlib.pyplot"].close(number)
        failed = FailedDrawing(subject, error_text(error))
        warn_caller(f"{failed}.")
        return failed


def close_figures(figures: Mapping[str, Any]) -> None:
    """Close the figures of drawings, which a user's code may have returned in another form."""
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is None:
        return
    for drawing in figures.values():
        if isinstance(figure := getattr(drawing, "figure", None), pyplot.Figure):
            pyplot.close(figure)


def _open_figures() -> Sequence[int]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    return [] if pyplot is None else pyplot.get_fignums()
