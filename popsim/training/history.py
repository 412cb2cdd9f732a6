"""What a training leaves behind: its course."""

from collections.abc import Mapping

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int, PyTree

from popsim.loss import LossValues
from popsim.training.batch_loop import LoopBuffers
from popsim.trial import Trial


class TaskTrainerHistory(eqx.Module):
    """The course of a training, as numpy arrays; axes (batch, member), without member for one model.

    - `batch`: the number of each recorded training batch, from 0.
    - `loss`: the mean weighted terms over the trials of each batch, before its update; `.total` is their sum.
    - `learning_rate`: the rate of each update; NaN where the optimizer does not tell.
    - `validation_batch`, `validation_loss`: after which batches the validation trials were run, and the
        mean weighted terms over them.
    - `trainables_batch`, `model_trainables`: after which batches the trainable arrays were kept, and
        these arrays, in the structure of the model (leaves that are not trained are None), with axes
        (batch, member, ...).
    - `trial_specs`: for each batch asked for, its trials, with axes (member, trial, ...); trials that
        members share have no member axis.
    """

    batch: Int[np.ndarray, " batch"]
    loss: LossValues
    learning_rate: Float[np.ndarray, "*axes"]
    validation_batch: Int[np.ndarray, " log"]
    validation_loss: LossValues
    trainables_batch: Int[np.ndarray, " kept"]
    model_trainables: PyTree
    trial_specs: Mapping[int, Trial]


class HistoryRecorder:
    """Gathers on the host what the compiled loop returns, call by call."""

    def __init__(self, first_batch: int):
        self._first_batch = first_batch
        self._records, self._trainables, self._validations = [], [], []
        self._validation_batches, self._trainables_batches = [], []

    def append(self, buffers: LoopBuffers, n_steps: int, trainables_batches: list[int]) -> None:
        """Take the filled rows of the buffers of one call."""
        records = jax.device_get(buffers.records)
        self._records.append(jax.tree.map(lambda rows: rows[:n_steps], records))
        if trainables_batches:
            n_kept = len(trainables_batches)
            kept = jax.device_get(buffers.trainables)
            self._trainables.append(jax.tree.map(lambda rows: rows[:n_kept].copy(), kept))
            self._trainables_batches += trainables_batches

    def append_validation(self, batch: int, loss: LossValues) -> None:
        """Take the mean validation loss after a batch."""
        self._validations.append(jax.device_get(loss))
        self._validation_batches.append(batch)

    @property
    def last_loss(self) -> LossValues:
        """The terms of the last batch, by member."""
        return jax.tree.map(lambda rows: np.asarray(rows[-1]), self._records[-1].loss)

    @property
    def last_validation_loss(self) -> LossValues:
        """The terms of the last validation, by member."""
        return self._validations[-1]

    @property
    def last_learning_rate(self) -> Float[np.ndarray, "*member"]:
        """The learning rate of the last batch, by member."""
        return np.asarray(self._records[-1].learning_rate[-1])

    def history(self, trial_specs: Mapping[int, Trial]) -> TaskTrainerHistory:
        """All that was recorded so far."""
        records = jax.tree.map(lambda *rows: np.concatenate(rows), *self._records)
        n_batches = records.learning_rate.shape[0]
        kept = (
            jax.tree.map(lambda *rows: np.concatenate(rows), *self._trainables) if self._trainables else None
        )
        return TaskTrainerHistory(
            batch=np.arange(self._first_batch, self._first_batch + n_batches),
            loss=records.loss,
            learning_rate=records.learning_rate,
            validation_batch=np.asarray(self._validation_batches, int),
            validation_loss=jax.tree.map(lambda *rows: np.stack(rows), *self._validations),
            trainables_batch=np.asarray(self._trainables_batches, int),
            model_trainables=kept,
            trial_specs=trial_specs,
        )
