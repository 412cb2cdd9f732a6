"""A part of the report of a run."""

import dataclasses
from collections.abc import Callable, Mapping

from popsim.experiments.run import Run
from popsim.experiments.run_figure import RunFigure


@dataclasses.dataclass(frozen=True)
class Section:
    """A question to a run that figures answer.

    - `title`: of the section.
    - `introduction`: what to look for, in a sentence or two; empty for nothing.
    - `draw`: from a finished `Run` its figures, by the names of their files, drawn in `figure_style`; None if
        the run does not have what they need, such as kept weights. Then the section is left out.
    """

    title: str
    introduction: str
    draw: Callable[[Run], Mapping[str, RunFigure] | None]
