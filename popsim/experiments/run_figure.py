"""A figure of a run, with what has to be known to read it."""

import dataclasses

from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class RunFigure:
    """A figure, and what a report says beneath it.

    - `figure`: of matplotlib.
    - `title`: what it shows, in a few words.
    - `caption`: what is drawn, of how many members and trials, and over what is averaged: the unit of
        replication.
    - `repeats`: whether it shows only what others show as well, such as an overview; reports leave it out.
    """

    figure: Figure
    title: str
    caption: str
    repeats: bool = False
