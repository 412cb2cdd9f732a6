"""The learning curves of a run, and its figures as files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from popsim._shared.drawing import FailedDrawing, close_figures, try_to_draw
from popsim.analysis.figures import draw_learning_curves, figure_style, save_figure
from popsim.experiments.results import RunFigure
from popsim.store import SaveError
from popsim.store.files import saving

__all__ = ["draw_learning", "draw_learning_figures", "learning_caption", "save_figures"]

LEARNING_TITLE = "Learning curves"


def draw_learning(run: Any) -> Callable[[Axes], Axes]:
    """Return a function that draws the total training and validation losses of a `Run` on axes.

    The loss of a training batch is that of the networks before its update, so the validation loss of the
    untrained networks stands at the first batch.
    """
    history = run.history
    untrained = run.evaluate(run.models(batch=-1)).losses.total.mean(axis=-1)
    validation = np.concatenate([np.asarray(untrained)[None], history.total_validation_loss.values])
    validation_batch = np.concatenate([[0], history.validation_batch.values])

    def draw(ax: Axes) -> Axes:
        draw_learning_curves(ax, history.batch.values, history.total_loss.values)
        draw_learning_curves(ax, validation_batch, validation, label="validation", color="#D55E00")
        ax.legend()
        ax.set_title("learning")
        return ax

    return draw


def learning_caption(run: Any) -> str:
    """Return the caption of the learning curves of a `Run`."""
    return (
        f"Total loss in training batches of {run.experiment.batch_size} trials, and in the validation trials "
        f"before training and after every {run.experiment.log_step} batches. Thin lines: "
        f"{run.experiment.n_members} members; thick: their mean, geometric if all losses are above zero. The "
        "unit of replication is the member: a network with a start and with trials of its own."
    )


def draw_learning_figures(run: Any) -> dict[str, RunFigure]:
    """Draw the learning curves of a `Run` of any experiment."""
    with figure_style():
        figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
        draw_learning(run)(ax)
    return {"learning_curves": RunFigure(figure, LEARNING_TITLE, learning_caption(run))}


def save_figures(
    run: Any,
    folder: Path,
    *,
    passes: tuple[type[Exception], ...] = (),
    check: Callable[[Path], None] = lambda path: None,
) -> tuple[list[Path], list[FailedDrawing]]:
    """Draw all figures of a run into a folder, as PNG and PDF; a warning tells what could not be drawn.

    Returned are the paths, and what could not be drawn. Errors of drawing in `passes` are raised; `check` is
    called with each path before any is written.
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
