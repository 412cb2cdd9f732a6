"""The figures of a finished run, in its folder."""

from pathlib import Path
from typing import Any

from popsim._drawing import FailedDrawing, close_figures, try_to_draw
from popsim.analysis.figures import save_figure
from popsim.experiments.run import Run
from popsim.store import SaveError
from popsim.store.files import saving


def save_figures(run: Run) -> list[Path]:
    """Draw all figures of a run into its folder, and return the paths of the PNG files.

    A warning tells what could not be drawn.

    **Raises:** `SaveError` if they cannot be written.
    """
    folder = run.folder.figures

    def save(name: str, figure: Any) -> list[Path]:
        with saving(folder):
            return save_figure(figure, folder, name)

    figures = try_to_draw(f"the figures of {run.folder.path}", lambda: dict(run.experiment.draw_figures(run)))
    if isinstance(figures, FailedDrawing):
        return []
    paths = []
    try:
        for name, run_figure in figures.items():
            saved = try_to_draw(
                f"the figure {name!r} of {run.folder.path}",
                lambda name=name, run_figure=run_figure: save(name, run_figure.figure),
                passes=SaveError,
            )
            paths += [] if isinstance(saved, FailedDrawing) else saved[:1]
    finally:
        close_figures(figures)
    return paths
