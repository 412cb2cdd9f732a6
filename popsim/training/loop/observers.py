"""Observers of a training: what records, shows and saves it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, Shaped

from popsim.evaluation import Evaluation
from popsim.loss import LossValues
from popsim.training.steps.member_step import BatchRecord
from popsim.training.steps.train_state import TrainState
from popsim.trial import Trial

__all__ = ["LogEntry"]


@dataclasses.dataclass(frozen=True)
class FinishedBatches:
    """The batches that one call of the compiled loop has made.

    - `first`, `count`: the number of the first of them, and their number.
    - `records`: their records, with a leading batch axis.
    - `kept`, `trainables`: those after which the trainables are kept, and these, with a leading axis.
    - `state`: the state after the last one.
    - `logs`: whether a logging point follows.

    Arrays may be views that the next call overwrites.
    """

    first: int
    count: int
    records: BatchRecord
    kept: Int[np.ndarray, " kept"]
    trainables: PyTree[np.ndarray]
    state: TrainState
    logs: bool

    @property
    def last(self) -> int:
        """The number of the last of the batches."""
        return self.first + self.count - 1


@dataclasses.dataclass(frozen=True)
class LogEntry:
    """One logging point.

    - `batch`: the number of the batch just finished.
    - `model`: the model, or ensemble, after that batch.
    - `loss`: the mean weighted terms of that batch, per member.
    - `validation_trials`: the validation trials; with a leading member axis if the members' tasks differ.
    - `validation`: states and losses of the validation trials, with axes (member, trial, ...).
    - `validation_loss`: the mean weighted terms of the validation trials, per member.
    - `metrics`: the results of `validation_metrics`, by name; for an ensemble the first axis is the member.
    - `frozen`: which members are frozen.
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
    learning_rate: Float[np.ndarray, "*member"]
    seconds: float


class Observer:
    """What is told about a training as it goes on; a subclass overrides the methods that it needs.

    After each call of the compiled loop, which ends where the host has work to do and after about a second,
    all observers get `on_batches`, then `on_log_point` if there is one, then `on_pause`.
    """

    def on_batches(self, batches: FinishedBatches) -> None:
        """Act on finished batches; Ctrl-C waits for all observers to do so if the training is saved."""

    def on_log_point(self, entry: LogEntry) -> None:
        """Act on a logging point."""

    def on_pause(self, last: int) -> None:
        """Act after batch `last` and its logging point, if any, before the next batches."""

    def on_end(self, error: BaseException | None) -> None:
        """Finish, after the last batch, or after an exception, which is raised again afterwards."""


class LogFunctions(Observer):
    """The `log_fns` of a trainer."""

    def __init__(self, functions: Sequence[Callable[[LogEntry], None]]):
        self._functions = functions

    def on_log_point(self, entry: LogEntry) -> None:
        for function in self._functions:
            function(entry)


class BatchCallbacks(Observer):
    """The `batch_callbacks` of a training."""

    def __init__(self, callbacks: Mapping[int, Sequence[Callable[[], None]]]):
        self._callbacks = callbacks

    def on_pause(self, last: int) -> None:
        for function in self._callbacks.get(last, ()):
            function()
