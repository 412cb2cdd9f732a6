"""The history of a training."""

import abc
from collections.abc import Callable, Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Float, Int, PyTree, Shaped

from popsim._checks import warn_caller
from popsim.ensemble import Members
from popsim.loss import LossValues
from popsim.training.history._history_text import history_text
from popsim.training.observers import FinishedBatches, LogEntry, Observer, Records
from popsim.training.steps.member_step import NOT_FROZEN
from popsim.training.steps.train_state import TrainState
from popsim.trial import Trial

__all__ = ["TaskTrainerHistory"]

BATCH = "batch"
VALIDATION = "validation_batch"
TRAINABLES = "trainables_batch"
TRIALS = "trials_batch"
UPDATE_SUFFIX = "_batch"


def update_axis(name: str) -> str:
    """Return the axis of the rows of population updates that are recorded as `name`, such as "selection"."""
    return name + UPDATE_SUFFIX


class AbstractHistoryRows(abc.ABC):
    """Rows of a history by axis: batches, validations, recordings of trainables and of trials.

    A subclass supplies `append` and `rows`.
    """

    @abc.abstractmethod
    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: PyTree[np.ndarray]) -> None:
        """Append rows and their batch numbers. The arrays are copied.

        **Arguments:**

        - `axis`: the axis, such as "trainables_batch".
        - `batches`: the batches after which the rows were recorded.
        - `rows`: arrays with a leading row axis, always of the same structure for one axis.
        """

    @abc.abstractmethod
    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], PyTree]:
        """Return all rows of an axis in order; None in place of arrays if there are none."""


class RowsInMemory(AbstractHistoryRows):
    """Rows in memory."""

    def __init__(self, n_rows: dict[str, int]):
        self._n_rows = n_rows
        self._batches: dict[str, list[np.ndarray]] = {}
        self._pieces: dict[str, list[PyTree]] = {}
        self._whole: dict[str, PyTree] = {}

    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: PyTree[np.ndarray]) -> None:
        begin = sum(map(len, self._batches.setdefault(axis, [])))
        self._batches[axis].append(np.array(batches))
        if axis not in self._n_rows:
            self._pieces.setdefault(axis, []).append(jax.tree.map(np.copy, rows))
            return
        if axis not in self._whole:
            n_rows = self._n_rows[axis]
            self._whole[axis] = jax.tree.map(
                lambda leaf: np.empty((n_rows, *leaf.shape[1:]), leaf.dtype), rows
            )

        def copy(array: np.ndarray, new: np.ndarray) -> None:
            array[begin : begin + new.shape[0]] = new

        jax.tree.map(copy, self._whole[axis], rows)

    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], PyTree]:
        if axis not in self._batches:
            return np.zeros(0, int), None
        batches = np.concatenate(self._batches[axis])
        if axis in self._whole:
            return batches, jax.tree.map(lambda leaf: leaf[: batches.size], self._whole[axis])
        return batches, jax.tree.map(lambda *rows: np.concatenate(rows), *self._pieces[axis])


class TaskTrainerHistory(eqx.Module):
    """The history of a training, as numpy arrays (trials and optimizer state: JAX arrays).

    Axes are (batch, member), without member for one model. If the history is stored in a folder,
    `model_trainables` holds `xarray.DataArray`s, read from disk on access.

    - `batch`: the number of each recorded training batch, from 0.
    - `loss`: the mean weighted terms over the trials of each batch, before its update; `.total` is their sum.
        NaN for a frozen or stopped member.
    - `learning_rate`: the rate of each update; NaN if the optimizer state does not hold it, and for a frozen
        or stopped member.
    - `loss_weights`: by term, the weights of each batch if `loss_update_func` changes them; else None.
    - `validation_batch`, `validation_loss`: the batches after which the validation trials were run, and the
        mean weighted terms over them, with the weights of the task.
    - `metrics`: the `validation_metrics` of each of these runs, by name, with axes (log, member, ...).
    - `trainables_batch`, `model_trainables`: the batches after which the trainable arrays were kept, and
        these arrays, in the structure of the model (leaves that are not trained are None), with axes (batch,
        member, ...). Arrays changed by model updates are included.
    - `trial_specs`: the trials of each requested batch, with axes (member, trial, ...); trials that members
        share have no member axis.
    - `frozen_from`: the batch in which a member's numbers were no longer finite: it stays as it was before
        that batch. -1 for a member that never froze.
    - `stopped_from`: the first batch that a member did not train because a population update stopped it; -1
        for one that was not stopped.
    - `updates`: what population updates did: "selection" has that of `PopulationBasedTraining`, "control"
        that of all that act at log points, and other updates have their class. Each has the batches after
        which they acted, "batch", and arrays with axes (update, member, ...) by the names that `open_history`
        has, such as "parent", "control.EarlyStopping.best", or "hyperparameter.learning_rate": that from the
        next batch on.
    - `opt_state`: the optimizer state after the last batch, from which to continue.
    - `members`: the members; `history.members.group(history.loss.total, axis=1)` has axes (batch, *settings,
        seed). None if the trainer was not given them.
    """

    batch: Int[np.ndarray, " batch"]
    loss: LossValues
    learning_rate: Float[np.ndarray, "*axes"]
    loss_weights: Mapping[str, Float[np.ndarray, "*axes"]] | None
    validation_batch: Int[np.ndarray, " log"]
    validation_loss: LossValues
    metrics: dict[str, Shaped[np.ndarray, "log ..."]]
    trainables_batch: Int[np.ndarray, " recorded"]
    model_trainables: PyTree
    trial_specs: Mapping[int, Trial]
    frozen_from: Int[np.ndarray, "*member"]
    opt_state: PyTree
    members: Members | None = eqx.field(static=True)
    stopped_from: Int[np.ndarray, "*member"] = eqx.field(default_factory=lambda: np.asarray(NOT_FROZEN))
    updates: Mapping[str, Mapping[str, Shaped[np.ndarray, "update ..."]]] = eqx.field(default_factory=dict)

    def __repr__(self) -> str:
        is_whole = isinstance(self.batch, np.ndarray)  # and not mapped to shapes, for example
        return history_text(self) if is_whole else super().__repr__()


class ValidationRecord(eqx.Module):
    """The record of a run of the validation trials, per member."""

    loss: LossValues
    metrics: dict[str, Shaped[np.ndarray, "..."]]


class HistoryRecorder(Observer):
    """Passes what a training computes to the rows of its history."""

    is_recording = True

    def __init__(
        self,
        rows: AbstractHistoryRows,
        spec_batches: Int[np.ndarray, " spec"],
        trials_of: Callable[[int, PyTree], Trial],
        trainables_dtype: DTypeLike | None = None,
    ):
        self._rows = rows
        self._spec_batches = spec_batches
        self._trials_of = trials_of
        self._trainables_dtype = trainables_dtype
        self._warned: set[str] = set()
        self._metrics: dict[str, tuple[int, ...]] | None = None
        self._updates: dict[str, dict[str, tuple[int, ...]]] = {}

    def on_batches(self, batches: FinishedBatches) -> None:
        numbers = np.arange(batches.first, batches.last + 1)
        self._rows.append(BATCH, numbers, batches.records)
        if batches.recorded_batches.size:
            rows = jax.tree.map_with_path(
                lambda path, rows: self._as_stored(path, rows, batches.recorded_batches), batches.trainables
            )
            self._rows.append(TRAINABLES, batches.recorded_batches, rows)
        for batch in np.intersect1d(self._spec_batches, numbers):
            arrays = eqx.filter(self._trials_of(int(batch), batches.state.hyperparameters), eqx.is_array)
            row = jax.tree.map(lambda leaf: np.asarray(leaf)[None], arrays)
            self._rows.append(TRIALS, batch[None], row)

    def on_updates(self, batch: int, records: Records, state: TrainState) -> None:
        self.on_replacement(batch, records)

    def on_replacement(self, batch: int, records: Records) -> None:
        for name, arrays in records.items():
            shapes = {array: values.shape for array, values in arrays.items()}
            if (before := self._updates.setdefault(name, shapes)) != shapes:
                raise ValueError(
                    "a population update must record the same names and shapes each time, "
                    f"got {shapes} after {before}."
                )
            row = {array: values[None] for array, values in arrays.items()}
            self._rows.append(update_axis(name), np.array([batch]), row)

    def on_log_point(self, entry: LogEntry) -> None:
        metrics = {name: values.shape for name, values in entry.metrics.items()}
        if (before := self._metrics or metrics) != metrics:
            raise ValueError(
                "`validation_metrics` must return the same names and shapes at each log point, "
                f"got {metrics} after {before}."
            )
        self._metrics = metrics
        record = ValidationRecord(entry.validation_loss, entry.metrics)
        row = jax.tree.map(lambda leaf: leaf[None], record)
        self._rows.append(VALIDATION, np.array([entry.batch]), row)

    def _as_stored(self, path: tuple, rows: np.ndarray, batches: Int[np.ndarray, " row"]) -> np.ndarray:
        """Return rows of an array in the dtype of the history; warn once of numbers beyond it."""
        if self._trainables_dtype is None:
            return rows
        with np.errstate(over="ignore"):
            stored = rows.astype(self._trainables_dtype)
        lost = np.isfinite(rows) & ~np.isfinite(stored)
        name = jax.tree_util.keystr(path).lstrip(".")
        if lost.any() and name not in self._warned:
            self._warned.add(name)
            largest = jnp.finfo(stored.dtype).max
            batch = batches[np.argmax(lost.reshape(len(lost), -1).any(axis=1))]
            warn_caller(
                f"{name} after batch {batch} has numbers beyond {largest}, which `trainables_dtype` "
                f"{stored.dtype} cannot hold: the history has infinity in their place (the model and its "
                "checkpoints have the numbers)."
            )
        return stored

    def history(
        self,
        *,
        trials_like: Trial,
        frozen_from: Int[np.ndarray, "*member"],
        stopped_from: Int[np.ndarray, "*member"],
        opt_state: PyTree,
        members: Members | None,
        updates: Iterable[str],
    ) -> TaskTrainerHistory:
        """Return the history so far, with values from the last state."""
        batch, records = self._rows.rows(BATCH)
        validation_batch, validation = self._rows.rows(VALIDATION)
        if validation is None:  # stopped before the first log point
            validation = ValidationRecord(jax.tree.map(lambda rows: rows[:0], records.loss), {})
        trainables_batch, trainables = self._rows.rows(TRAINABLES)
        trials_batch, trials = self._rows.rows(TRIALS)
        rows_of_updates = {name: self._rows.rows(update_axis(name)) for name in updates}
        without_arrays = eqx.filter(trials_like, eqx.is_array, inverse=True)
        specs = {
            number: eqx.combine(
                jax.tree.map(lambda leaf, r=row: jnp.asarray(leaf[r]), trials), without_arrays
            )
            for row, number in enumerate(trials_batch.tolist())
        }
        return TaskTrainerHistory(
            batch=batch,
            loss=records.loss,
            learning_rate=records.learning_rate,
            loss_weights=records.loss_weights,
            validation_batch=validation_batch,
            validation_loss=validation.loss,
            metrics=validation.metrics,
            trainables_batch=trainables_batch,
            model_trainables=trainables,
            trial_specs=specs,
            frozen_from=frozen_from,
            opt_state=opt_state,
            members=members,
            stopped_from=stopped_from,
            updates={
                name: {BATCH: batches, **rows}
                for name, (batches, rows) in rows_of_updates.items()
                if rows is not None
            },
        )
