"""The course of a training for TensorBoard."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from popsim.loss import LossValues
from popsim.training.log_entry import LogEntry
from popsim.trial import Trial

FLUSH_SECONDS = 10


ValidationFigures = Callable[[PyTree, Trial], Mapping[str, Any]]


def check_tensorboard() -> None:
    """Raise `ImportError` if the package tensorboardX is missing."""
    try:
        import tensorboardX  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "TensorBoard events need the package tensorboardX, which is missing: "
            'pip install "popsim[tensorboard]"'
        ) from error


class TensorBoardWriter:
    """Writes what is logged during training as TensorBoard events: losses, learning rate, figures.

    An entry of `log_fns` of `TaskTrainer`, which `enable_tensorboard` makes. The scalars are
    "training/total", "training/<term>", the same of "validation", and "learning_rate" where it is known:
    means over members that are not frozen. For an ensemble there is also the total of each member,
    "training/total/member_3". The step is the number of the batch. What is written is on disk after ten
    seconds, or when the writer is closed. TensorBoard has underscores where names have spaces.

    **Arguments:**

    - `logdir`: the folder, made if it is not there.
    - `validation_figures`: `validation_figures(states, trials) -> {name: matplotlib figure}`, drawn at each
        logging point from the states of the validation trials (leaves lead with (member,) trial, time)
        and these trials. Figures are closed when they are written.
    - `first_batch`: from which batch on events are written; what an interrupted training wrote of them is
        hidden.

    **Raises:** `ImportError` if the package tensorboardX is missing.
    """

    def __init__(
        self,
        logdir: str | Path,
        validation_figures: ValidationFigures | None = None,
        *,
        first_batch: int = 0,
    ):
        check_tensorboard()
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(logdir), purge_step=first_batch or None, flush_secs=FLUSH_SECONDS)
        self._validation_figures = validation_figures

    def __call__(self, entry: LogEntry) -> None:
        """Write one logging point."""
        figures = {}
        if self._validation_figures is not None:
            figures = self._validation_figures(entry.validation.states, entry.validation_trials)
        for name, value in _scalars(entry):
            self._writer.add_scalar(name, value, entry.batch)
        for name, figure in figures.items():
            self._writer.add_figure(f"validation/{name}", figure, entry.batch)

    def close(self) -> None:
        """Write what is left and close the file."""
        self._writer.close()


def _scalars(entry: LogEntry) -> Iterator[tuple[str, float]]:
    yield from _of_loss("training", entry.loss, entry.frozen)
    yield from _of_loss("validation", entry.validation_loss, entry.frozen)
    if np.all(np.isfinite(entry.learning_rate[~entry.frozen])):
        yield from _mean("learning_rate", entry.learning_rate, entry.frozen)


def _of_loss(name: str, loss: LossValues, frozen: np.ndarray) -> Iterator[tuple[str, float]]:
    total = np.asarray(loss.total)
    for term, values in {**loss.terms, "total": total}.items():
        yield from _mean(f"{name}/{term}", values, frozen)
    if total.ndim:
        for index, value in enumerate(total):
            yield f"{name}/total/member_{index}", float(value)


def _mean(name: str, values: Any, frozen: np.ndarray) -> Iterator[tuple[str, float]]:
    """The mean over members that are not frozen, if there are any."""
    live = np.asarray(values)[~frozen]
    if live.size:
        yield name, float(live.mean())
