"""Logging of a training: losses, the progress bar, the log and TensorBoard."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree, Shaped
from tqdm.auto import tqdm

from popsim.loss import LossValues
from popsim.store import as_json_numbers
from popsim.store.identity import RUN_ID
from popsim.training.loop.observers import FinishedBatches, LogEntry, Observer
from popsim.trial import Trial

__all__ = ["TensorBoardWriter"]


ValidationMetrics = Callable[[PyTree, Trial], Mapping[str, ArrayLike]]


def checked_metrics(
    metrics: Mapping[str, ArrayLike], n_members: int | None
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return metrics as arrays.

    **Arguments:**

    - `metrics`: the result of `validation_metrics`.
    - `n_members`: the length of the leading member axis; None for a single model.

    **Raises:** `ValueError` if they are not numbers by name, or not one per member.
    """
    if not isinstance(metrics, Mapping):
        raise ValueError(f"`validation_metrics` must return numbers by name, got {type(metrics).__name__}.")
    arrays = {name: np.asarray(values) for name, values in metrics.items()}
    for name, values in arrays.items():
        if not isinstance(name, str) or values.dtype.kind not in "biuf":
            raise ValueError(
                f"`validation_metrics` must return numbers by name, got {values.dtype} for {name!r}."
            )
        if not name or "/" in name or name.startswith("."):  # they name arrays on disk
            raise ValueError(f"`validation_metrics` must return plain names without '/', got {name!r}.")
        if n_members is not None and values.shape[:1] != (n_members,):
            raise ValueError(
                f"`validation_metrics` must return an array that leads with the {n_members} members, "
                f"got shape {values.shape} for {name!r}."
            )
    return arrays


def log_line(entry: LogEntry, run_id: str) -> dict[str, Any]:
    """Return a line of the log, as JSON values; numbers that are not finite are null.

    **Arguments:**

    - `entry`: the logging point.
    - `run_id`: the id of the run.
    """
    return {
        RUN_ID: run_id,
        "batch": entry.batch,
        "seconds": round(entry.seconds, 3),
        "loss": _by_term(entry.loss),
        "validation_loss": _by_term(entry.validation_loss),
        "metrics": {name: as_json_numbers(values) for name, values in entry.metrics.items()},
        "learning_rate": as_json_numbers(entry.learning_rate),
        "frozen": entry.frozen.tolist(),
    }


def _by_term(loss: LossValues) -> dict[str, Any]:
    return {name: as_json_numbers(values) for name, values in loss.terms.items()}


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


class TensorBoardWriter(Observer):
    """A writer of TensorBoard events during training: losses, learning rate, figures.

    An entry of `log_fns` of `TaskTrainer`, added by `enable_tensorboard`. The scalars are "training/total",
    "training/<term>", the same for "validation", and "learning_rate" if it is known: means over members that
    are not frozen. An ensemble also has the total of each member, "training/total/member_3". The step is the
    batch number. Events are on disk after ten seconds, or when the writer is closed. TensorBoard shows
    underscores in place of spaces in names.

    **Arguments:**

    - `logdir`: the folder, created if it does not exist.
    - `validation_figures`: `validation_figures(states, trials) -> {name: matplotlib figure}`, called at each
        logging point with the states of the validation trials (leaves have axes (member,) trial, time) and
        these trials. Figures are closed once written.
    - `first_batch`: the first batch of these events; later events of an interrupted training are hidden.

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

    def on_log_point(self, entry: LogEntry) -> None:
        self(entry)

    def on_end(self, error: BaseException | None) -> None:
        self.close()

    def close(self) -> None:
        """Write the remaining events and close the file."""
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
    """Yield the mean over members that are not frozen, if there are any."""
    live = np.asarray(values)[~frozen]
    if live.size:
        yield name, float(live.mean())


Losses = Float[Array | np.ndarray, "*member"] | np.floating


class ProgressBar(Observer):
    """A progress bar of loss, batches per second and time left, with the losses of logging points above it.

    `disable` hides it.
    """

    def __init__(self, n_batches: int, first_batch: int, *, disable: bool):
        self._bar = tqdm(
            total=n_batches,
            initial=first_batch,
            disable=disable,
            unit="batch",
            desc="compiling",
            dynamic_ncols=True,
        )
        self._columns: tuple[str, ...] = ()

    def on_batches(self, batches: FinishedBatches) -> None:
        """Advance, and show the mean loss of the last batch over members that are not frozen."""
        self._bar.set_description_str("training", refresh=False)
        shown = _mean_of_finite(np.asarray(batches.records.loss.total)[-1])
        self._bar.set_postfix_str(f"loss {shown}" if shown else "all frozen", refresh=False)
        self._bar.update(batches.count)

    def on_log_point(self, entry: LogEntry) -> None:
        """Write a table row: the loss of the batch, and the validation loss with its terms.

        Values are means over members that are not frozen. Nothing is written if the bar is disabled.
        """
        if self._bar.disable:
            return
        validation = entry.validation_loss
        terms = validation.terms if len(validation.terms) > 1 else {}
        columns: tuple[str, ...] = ("batch", "loss", "validation", *terms)
        losses = (entry.loss.total, validation.total, *terms.values())
        row = (str(entry.batch), *(_mean_of_finite(loss) or "frozen" for loss in losses))
        rows = [row] if columns == self._columns else [columns, row]
        for one in rows:
            cells = (text.rjust(max(10, len(name))) for name, text in zip(columns, one, strict=True))
            self._bar.write("  ".join(cells), file=self._bar.fp)
        self._columns = columns

    def on_end(self, error: BaseException | None) -> None:
        """Close the bar, leaving it on screen."""
        self._bar.close()


def _mean_of_finite(losses: Losses) -> str:
    """Return the mean over members that are not frozen, in three digits; "" if all are."""
    values = np.asarray(losses)
    finite = values[np.isfinite(values)]
    return f"{finite.mean():.3g}" if finite.size else ""
