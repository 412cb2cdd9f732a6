"""How an ensemble learned, as figures of runs show it."""

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from popsim.analysis.figures import draw_learning_curves

LEARNING_TITLE = "Learning curves"


def draw_learning(run: Any) -> Callable[[Axes], Axes]:
    """What draws the total loss in training and validation on axes.

    **Arguments:**

    - `run`: a `Run`.
    """
    history = run.history

    def draw(ax: Axes) -> Axes:
        draw_learning_curves(ax, history.batch.values, history.total_loss.values)
        validation = history.total_validation_loss
        draw_learning_curves(
            ax, history.validation_batch.values, validation.values, label="validation", color="#D55E00"
        )
        ax.legend()
        ax.set_title("learning")
        return ax

    return draw


def learning_caption(run: Any) -> str:
    """What is to be said about the drawing of a `Run`."""
    return (
        f"Total loss in training batches of {run.experiment.batch_size} trials, and in the validation trials "
        f"after every {run.experiment.log_step} batches. Thin lines: {run.experiment.n_members} members; "
        "thick: their geometric mean. The unit of replication is the member: a network with a start and with "
        "trials of its own."
    )
