"""What a training leaves behind: its course."""

from collections.abc import Mapping

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int, PyTree

from popsim.loss import LossValues
from popsim.members import Members
from popsim.training.batch_loop import LoopBuffers
from popsim.trial import Trial


class TaskTrainerHistory(eqx.Module):
    """The course of a training, as numpy arrays (trials and optimizer state: JAX arrays).

    Axes are (batch, member), without member for one model.

    - `batch`: the number of each recorded training batch, from 0.
    - `loss`: the mean weighted terms over the trials of each batch, before its update; `.total` is their
        sum. NaN for a frozen member.
    - `learning_rate`: the rate of each update; NaN where the optimizer does not tell, and for a frozen
        member.
    - `loss_weights`: by term, the weights of each batch, where `loss_update_func` changes them; else None.
    - `validation_batch`, `validation_loss`: after which batches the validation trials were run, and the
        mean weighted terms over them, with the weights of the task.
    - `trainables_batch`, `model_trainables`: after which batches the trainable arrays were kept, and
        these arrays, in the structure of the model (leaves that are not trained are None), with axes
        (batch, member, ...). What model updates change is among them.
    - `trial_specs`: for each batch asked for, its trials, with axes (member, trial, ...); trials that
        members share have no member axis.
    - `frozen_from`: the batch in which a member's numbers were no longer finite: from it on the member is
        as it was before it. -1 for a member that never froze.
    - `opt_state`: the optimizer's state after the last batch, to continue from.
    - `members`: who the members are; `history.members.group(history.loss.total, axis=1)` has the axes
        (batch, *settings, seed). None where the trainer was not told.
    """

    batch: Int[np.ndarray, " batch"]
    loss: LossValues
    learning_rate: Float[np.ndarray, "*axes"]
    loss_weights: dict[str, Float[np.ndarray, "*axes"]] | None
    validation_batch: Int[np.ndarray, " log"]
    validation_loss: LossValues
    trainables_batch: Int[np.ndarray, " kept"]
    model_trainables: PyTree
    trial_specs: Mapping[int, Trial]
    frozen_from: Int[np.ndarray, "*member"]
    opt_state: PyTree
    members: Members | None = eqx.field(static=True)


class HistoryRecorder:
    """Gathers on the host what the compiled loop returns, call by call.

    **Arguments:**

    - `first_batch`: the number of the first batch.
    - `n_members`: how many members are kept of those that the loop returns; None for a single model.
    - `n_kept`: how often the trainables will be kept.
    """

    def __init__(self, first_batch: int, n_members: int | None, n_kept: int):
        self._first_batch = first_batch
        self._n_members = n_members
        self._n_kept = n_kept
        self._trainables: PyTree = None
        self._records, self._validations = [], []
        self._validation_batches, self._trainables_batches = [], []

    def append(self, buffers: LoopBuffers, n_steps: int, trainables_batches: list[int]) -> None:
        """Take the filled rows of the buffers of one call."""
        self._records.append(jax.tree.map(np.copy, self._rows(buffers.records, n_steps)))
        if trainables_batches:
            self._keep(self._rows(buffers.trainables, len(trainables_batches)))
            self._trainables_batches += trainables_batches

    def _rows(self, buffer: PyTree, n_rows: int) -> PyTree:
        """Views of the filled rows; the next call of the loop may write over them."""
        filled = np.s_[:n_rows] if self._n_members is None else np.s_[:n_rows, : self._n_members]
        return jax.tree.map(lambda rows: rows[filled], jax.device_get(buffer))

    def _keep(self, rows: PyTree) -> None:
        """Copy rows of trainables to where they stay: there may be much of them, so only once."""
        if self._trainables is None:
            self._trainables = jax.tree.map(
                lambda leaf: np.empty((self._n_kept, *leaf.shape[1:]), leaf.dtype), rows
            )
        begin = len(self._trainables_batches)

        def copy(kept: np.ndarray, new: np.ndarray) -> None:
            kept[begin : begin + new.shape[0]] = new

        jax.tree.map(copy, self._trainables, rows)

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

    def history(
        self,
        *,
        trial_specs: Mapping[int, Trial],
        frozen_from: Int[np.ndarray, "*member"],
        opt_state: PyTree,
        members: Members | None,
    ) -> TaskTrainerHistory:
        """All that was recorded so far, with what only the last state tells."""
        records = jax.tree.map(lambda *rows: np.concatenate(rows), *self._records)
        n_batches = records.learning_rate.shape[0]
        return TaskTrainerHistory(
            batch=np.arange(self._first_batch, self._first_batch + n_batches),
            loss=records.loss,
            learning_rate=records.learning_rate,
            loss_weights=records.loss_weights,
            validation_batch=np.asarray(self._validation_batches, int),
            validation_loss=jax.tree.map(lambda *rows: np.stack(rows), *self._validations),
            trainables_batch=np.asarray(self._trainables_batches, int),
            model_trainables=self._trainables,
            trial_specs=trial_specs,
            frozen_from=frozen_from,
            opt_state=opt_state,
            members=members,
        )
