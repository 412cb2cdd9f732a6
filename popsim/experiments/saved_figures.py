"""The figures of a run as files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from popsim._drawing import FailedDrawing, close_figures, try_to_draw
from popsim.analysis.figures import save_figure
from popsim.experiments.run import Run
from popsim.store import SaveError
from popsim.store.files import saving

__all__ = ["save_figures"]


def save_figures(
    run: Run,
    folder: Path,
    *,
    passes: tuple[type[Exception], ...] = (),
    check: Callable[[Path], None] = lambda path: None,
) -> tuple[list[Path], list[FailedDrawing]]:
    """Draw all figures of a run into a folder, as PNG and PDF.

    A warning tells what could not be drawn.

    **Arguments:**

    - `passes`: the errors of drawing that are raised, such as those of damaged files.
    - `check`: called with the path of each file before any is written.

    **Returns:** the paths, and what could not be drawn.

    **Raises:** `SaveError` if they cannot be written.
    """

    def save(name: str, figure: Any) -> list[Path]:
        with saving(folder):
            return save_figure(figure, folder, name)

    of_run = f"of {run.folder.path}"
    figures = try_to_draw(
        f"the figures {of_run}", lambda: dict(run.experiment.draw_figures(run)), passes=passes
    )
    if isinstance(figures, FailedDrawing):
        return [], [figures]
    paths, failed = [], []
    try:
        for name in figures:
            for ending in ("png", "pdf"):
                check(folder / f"{name}.{ending}")
        for name, run_figure in figures.items():
            saved = try_to_draw(
                f"the figure {name!r} {of_run}",
                lambda name=name, run_figure=run_figure: save(name, run_figure.figure),
                passes=SaveError,
            )
            if isinstance(saved, FailedDrawing):
                failed.append(saved)
            else:
                paths += saved
    finally:
        close_figures(figures)
    return paths, failed
