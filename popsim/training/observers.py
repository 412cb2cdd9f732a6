"""Observers of a training, which show and report it, and the events that they receive."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int, PyTree, Shaped

from popsim._shared.drawing import FailedDrawing, try_to_draw
from popsim.evaluation import Evaluation
from popsim.loss import LossValues
from popsim.store.files import is_plain_name
from popsim.training.steps.member_step import BatchRecord
from popsim.training.steps.train_state import TrainState
from popsim.trial import Trial

__all__ = ["FinishedBatches", "LogEntry", "Observer", "TensorBoardWriter", "TrainingStart"]

Records = Mapping[str, Mapping[str, np.ndarray]]
"""By axis, arrays by name."""

FLUSH_SECONDS = 10
ValidationMetrics = Callable[[PyTree, Trial], Mapping[str, ArrayLike]]
ValidationFigures = Callable[[PyTree, Trial], Mapping[str, Any]]


def as_metrics(
    metrics: Mapping[str, ArrayLike], n_members: int | None
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return metrics as arrays."""
    arrays = {name: np.asarray(values) for name, values in metrics.items()}
    for name, values in arrays.items():
        is_numeric = values.dtype.kind in "biuf" and is_plain_name(name)  # they name arrays on disk
        if not is_numeric or (n_members is not None and values.shape[:1] != (n_members,)):
            members = "" if n_members is None else f", in arrays that lead with the {n_members} members"
            raise ValueError(
                f"`validation_metrics` must return numbers by plain names, without '/'{members}, "
                f"got {values.dtype} of shape {values.shape} for {name!r}."
            )
    return arrays


@dataclasses.dataclass(frozen=True)
class FinishedBatches:
    """The batches that one call of the compiled loop has made.

    - `first`, `count`: the number of the first of them, and their number.
    - `records`: their losses and learning rates, with axes (batch, member), without member for one model; NaN
        for members that are frozen or stopped.
    - `recorded_batches`, `trainables`: those after which trainables are kept, and these, with a leading axis.
    - `state`: the state after the last one.
    - `frozen_from`: the batch from which on each member is frozen; -1 if it is not.
    - `logs`: whether a log point follows.
    - `updates`: whether population updates follow.

    Arrays may be views that the next call overwrites, and those of `state` are deleted by it. Over several
    devices the members of `state` are padded.
    """

    first: int
    count: int
    records: BatchRecord
    recorded_batches: Int[np.ndarray, " recorded"]
    trainables: PyTree[np.ndarray]
    state: TrainState
    frozen_from: Int[np.ndarray, "*member"]
    logs: bool
    updates: bool

    @property
    def last(self) -> int:
        """The number of the last of the batches."""
        return self.first + self.count - 1


@dataclasses.dataclass(frozen=True)
class LogEntry:
    """One log point.

    - `batch`: the number of the batch just finished.
    - `model`: the model, or ensemble, after that batch.
    - `loss`: the mean weighted terms of that batch, per member.
    - `validation_trials`: the validation trials; with a leading member axis if the members' tasks differ.
    - `validation`: states and losses of the validation trials, with axes (member, trial, ...).
    - `validation_loss`: the mean weighted terms of the validation trials, per member.
    - `metrics`: the results of `validation_metrics`, by name; for an ensemble the first axis is the member.
    - `frozen`: which members are frozen.
    - `stopped`: which members were stopped before that batch by a population update.
    - `learning_rate`: the learning rate of that batch's update, per member.
    - `seconds`: the training time, including compilation.
    """

    batch: int
    model: Any
    loss: LossValues
    validation_trials: Trial
    validation: Evaluation
    validation_loss: LossValues
    metrics: dict[str, Shaped[np.ndarray, "..."]]
    frozen: Bool[np.ndarray, "*member"]
    stopped: Bool[np.ndarray, "*member"]
    learning_rate: Float[np.ndarray, "*member"]
    seconds: float


@dataclasses.dataclass(frozen=True)
class TrainingStart:
    """What a training is about to do.

    - `first_batch`: the number of the first batch, which is 0 unless the training is resumed.
    - `n_batches`: the number of batches at the end.
    - `n_members`: the number of members; None for a single model.
    - `n_trained`: the number of numbers of one member that the optimizer trains.
    """

    first_batch: int
    n_batches: int
    n_members: int | None
    n_trained: int


class Observer:
    """Watches a training without changing it; a subclass overrides the methods that it needs.

    Ctrl-C waits for the methods of one that `is_recording`, which must not be left half done.

    All observers get `on_begin` first, and `on_compilation` before each part of the training that runs for
    the first time. After each call of the compiled loop, which ends where the host has work to do and after
    about a second, they get `on_batches`, then `on_updates` and `on_log_point` where there are some, then
    `on_pause`, and `on_replacement` where members are replaced then. At the end all get `on_end`.

    !!! example

        ```python
        >>> from popsim.training import Observer
        >>> class Counter(Observer):
        ...     n_batches = 0
        ...     def on_batches(self, batches):
        ...         self.n_batches += batches.count

        ```
    """

    is_recording: ClassVar[bool] = False

    def on_begin(self, start: TrainingStart) -> None:
        """Act before the first batch."""

    def on_compilation(self, program: str) -> None:
        """Act before "training", anew in each phase, or "validation" is compiled, or loaded, to run.

        It has run when `on_batches` (of training) follows, or `on_pause` or `on_replacement`.
        """

    def on_batches(self, batches: FinishedBatches) -> None:
        """Act on finished batches; Ctrl-C waits for all observers to do so if the training is saved."""

    def on_updates(self, batch: int, records: Records, state: TrainState) -> None:
        """Act on what population updates did after a batch, before its `on_log_point`.

        The records are by axis, such as "control", arrays by the names that they have in the history.
        """

    def on_log_point(self, entry: LogEntry) -> None:
        """Act on a log point."""

    def on_replacement(self, batch: int, records: Records) -> None:
        """Act on replaced members, before the next batches; see `on_updates`."""

    def on_pause(self, last: int) -> None:
        """Act after batch `last` and its log point, if any, before the next batches."""

    def on_end(self, error: BaseException | None) -> None:
        """Finish, after the last batch, or after an exception, which is raised again afterwards."""


class UserFunctions(Observer):
    """The `log_fns` of a trainer, and the `batch_callbacks` of a training."""

    def __init__(
        self,
        log_fns: Sequence[Callable[[LogEntry], None]],
        callbacks: Mapping[int, Sequence[Callable[[], None]]],
    ):
        self._log_fns, self._callbacks = log_fns, callbacks

    def on_log_point(self, entry: LogEntry) -> None:
        for function in self._log_fns:
            function(entry)

    def on_pause(self, last: int) -> None:
        for function in self._callbacks.get(last, ()):
            function()


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

    `TaskTrainer` adds one where `enable_tensorboard` is set. One made by hand is called at log points, as one
    of the `log_fns`, and closed by its owner. The scalars are "training/total", "training/<term>", the same
    for "validation", and "learning_rate" if it is known: means over members that are not frozen, and but for
    validation not stopped either. An ensemble also has the total of each member, "training/total/member_3".
    Events are on disk after ten seconds, or when the writer is closed.

    **Arguments:**

    - `logdir`: the folder, created if it does not exist.
    - `validation_figures`: `(states, trials) -> {name: matplotlib figure}`, called at each log point with the
        validation trials and their states, axes (member,) trial, time. Figures are closed once written.
    - `first_batch`: the first batch of these events; later events of an interrupted training are hidden.

    **Raises:** `ImportError` if the package tensorboardX is missing.
    """

    def __init__(
        self, logdir: str | Path, validation_figures: ValidationFigures | None = None, *, first_batch: int = 0
    ):
        check_tensorboard()
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(
            str(logdir),
            purge_step=first_batch or None,
            flush_secs=FLUSH_SECONDS,
            filename_suffix=f".{first_batch}",  # else the same within a second
        )
        self._validation_figures = validation_figures

    def __call__(self, entry: LogEntry) -> None:
        """Write one log point."""
        for name, value in _scalars(entry):
            self._writer.add_scalar(name, value, entry.batch)
        draw = self._validation_figures
        if draw is None:
            return
        figures = try_to_draw(
            "`validation_figures`", lambda: dict(draw(entry.validation.states, entry.validation_trials))
        )
        for name, figure in {} if isinstance(figures, FailedDrawing) else figures.items():
            try_to_draw(
                f"the figure {name!r} of `validation_figures`",
                lambda name=name, figure=figure: self._writer.add_figure(
                    f"validation/{name}", figure, entry.batch
                ),
                passes=OSError,
            )

    def on_log_point(self, entry: LogEntry) -> None:
        self(entry)

    def on_end(self, error: BaseException | None) -> None:
        self.close()

    def close(self) -> None:
        """Write the remaining events and close the file."""
        self._writer.close()


def _scalars(entry: LogEntry) -> Iterator[tuple[str, float]]:
    """Yield the means of a log point over members that train, and the total of each member."""
    idle = np.asarray(entry.frozen | entry.stopped)
    losses = (("training", entry.loss, idle), ("validation", entry.validation_loss, entry.frozen))
    means = [(f"{name}/{term}", values, out) for name, loss, out in losses for term, values in _terms(loss)]
    if np.isfinite(entry.learning_rate[~idle]).all():
        means.append(("learning_rate", entry.learning_rate, idle))
    for name, values, left_out in means:
        if (live := np.asarray(values)[~left_out]).size:
            yield name, float(live.mean())
    for name, loss, _ in losses:
        for index, value in enumerate(np.asarray(loss.total) if entry.frozen.ndim else ()):
            yield f"{name}/total/member_{index}", float(value)


def _terms(loss: LossValues) -> list[tuple[str, Any]]:
    return [*loss.terms.items(), ("total", loss.total)]
