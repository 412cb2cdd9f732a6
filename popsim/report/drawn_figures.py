"""Figures as files and as parts of a page."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt

from popsim.analysis.figures import figure_style, save_figure
from popsim.experiments.run_figure import RunFigure
from popsim.report.html import Html, figure
from popsim.report.picture import alt_text, picture
from popsim.store.whole_file import saving


def save_and_embed(figures: Mapping[str, RunFigure], folder: Path) -> tuple[list[Path], list[Html]]:
    """Write figures as PNG and PDF, and show them in a page; they are closed then.

    **Arguments:**

    - `figures`: by the names of their files.
    - `folder`: of the files; made if there is none.

    **Returns:** the paths of the PNG files, and what shows all but those that repeat others.

    **Raises:** `SaveError` if they cannot be written.
    """
    paths, shown = [], []
    try:
        for name, drawn in figures.items():
            with saving(folder), figure_style():
                paths.append(save_figure(drawn.figure, folder, name)[0])
            if drawn.repeats:
                continue
            alt = alt_text(drawn.figure, drawn.title)
            source = picture(drawn.figure, alt)
            shown.append(figure(source, alt=alt, title=drawn.title, caption=drawn.caption))
    finally:
        for drawn in figures.values():
            plt.close(drawn.figure)
    return paths, shown
