"""A figure of a run, with its title and caption."""

import dataclasses
from typing import Any

__all__ = ["RunFigure"]


@dataclasses.dataclass(frozen=True)
class RunFigure:
    """A figure with its title and caption in a report.

    - `figure`: a matplotlib figure.
    - `title`: a short title.
    - `caption`: what is drawn, the number of members and trials, and what is averaged over: the unit of
        replication.
    - `repeats`: whether it only repeats other figures, such as an overview; reports leave it out.
    """

    figure: Any
    title: str
    caption: str
    repeats: bool = False
