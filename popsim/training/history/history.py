"""The history of a training."""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Float, Int, PyTree, Shaped

from popsim._shared.text_checks import align, size_text, spread_text
from popsim.ensemble import Members
from popsim.loss import LossValues
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
MOST_SHAPES = 4  # that are listed of one record


def update_axis(name: str) -> str:
    """Return the axis of the rows of population updates that are recorded as `name`, such as "selection"."""
    return name + UPDATE_SUFFIX


class AbstractHistoryRows(abc.ABC):
    """Rows of a history by axis: batches, validations, recordings of trainables and of trials."""

    @abc.abstractmethod
    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: PyTree[np.ndarray]) -> None:
        """Append copies of rows, arrays of one structure for each axis, and their batch numbers."""

    @abc.abstractmethod
    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], PyTree]:
        """Return all rows of an axis in order; None in place of arrays if there are none."""


class RowsInMemory(AbstractHistoryRows):
    """Rows in memory; where their number is known, they are written where they stay."""

    def __init__(self, n_rows: dict[str, int]):
        self._n_rows = n_rows
        self._batches: dict[str, list[np.ndarray]] = {}
        self._pieces: dict[str, list[PyTree]] = {}

    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: PyTree[np.ndarray]) -> None:
        numbers, pieces = self._batches.setdefault(axis, []), self._pieces.setdefault(axis, [])
        begin = sum(map(len, numbers))
        numbers.append(np.array(batches))
        if axis not in self._n_rows:
            pieces.append(jax.tree.map(np.copy, rows))
            return
        if not pieces:
            shape = (self._n_rows[axis],)
            pieces.append(jax.tree.map(lambda new: np.empty((*shape, *new.shape[1:]), new.dtype), rows))
        filled = np.s_[begin : begin + len(batches)]
        jax.tree.map(lambda array, new: array.__setitem__(filled, new), pieces[0], rows)

    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], PyTree]:
        if axis not in self._batches:
            return np.zeros(0, int), None
        batches, pieces = np.concatenate(self._batches[axis]), self._pieces[axis]
        if axis in self._n_rows:
            return batches, jax.tree.map(lambda leaf: leaf[: batches.size], pieces[0])
        return batches, jax.tree.map(lambda *rows: np.concatenate(rows), *pieces)


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


def history_text(history: TaskTrainerHistory) -> str:
    """List what was recorded: of which batches, with which axes, and how large. Lazy arrays are not read."""
    n_members, n_batches = np.shape(history.frozen_from), len(history.batch)
    who = f"{n_members[0]} members" if n_members else "one model"
    lines = [f"History: {n_batches} batches of {who}"]
    if n_batches:
        total = np.asarray(history.loss.total)
        first, last = (spread_text(np.atleast_1d(total[place])) for place in (0, -1))
        lines.append(f"loss {first} in the first batch, {last} in the last")
    for how, from_batch in {"frozen": history.frozen_from, "stopped": history.stopped_from}.items():
        batches = np.atleast_1d(from_batch)
        who = [f"{member} from batch {batches[member]} on" for member in np.flatnonzero(batches >= 0)]
        lines += [f"{how}: {', '.join(who)}"] if who else []
    head = ("recorded", "batches", "arrays", "size")
    return "\n".join([*lines, *align([head, *_recorded_rows(history)])])


def _recorded_rows(history: TaskTrainerHistory) -> Iterator[tuple[str, ...]]:
    """Yield the name, the batches, the shapes and the size of each record that is there."""
    logged = {f"metrics[{name!r}]": values for name, values in history.metrics.items()}
    records = [
        (f"loss ({', '.join(history.loss.terms)})", history.batch, history.loss.terms),
        ("learning_rate", history.batch, history.learning_rate),
        ("loss_weights", history.batch, history.loss_weights),
        ("validation_loss", history.validation_batch, history.validation_loss.terms),
        *((name, history.validation_batch, values) for name, values in logged.items()),
        ("model_trainables", history.trainables_batch, history.model_trainables),
        ("trial_specs", sorted(history.trial_specs), dict(history.trial_specs)),
        *(
            (f"updates[{name!r}]", rows[BATCH], {array: rows[array] for array in rows if array != BATCH})
            for name, rows in history.updates.items()
        ),
    ]
    for name, batches, tree in records:
        # Lazy arrays are leaves, with a shape and a size of their own.
        arrays: list[Any] = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "nbytes")]
        if arrays and len(batches):
            shapes = list(dict.fromkeys(" × ".join(map(str, array.shape)) for array in arrays))
            listed = ", ".join(shapes[:MOST_SHAPES]) + (", ..." if len(shapes) > MOST_SHAPES else "")
            count = f"{len(arrays)} of " if len(arrays) > 1 else ""
            size = size_text(sum(array.nbytes for array in arrays))
            yield name, f"{len(batches)}: {batches[0]} to {batches[-1]}", count + listed, size


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
        self._forms: dict[str, dict[str, tuple[int, ...]]] = {}

    def on_batches(self, batches: FinishedBatches) -> None:
        numbers = np.arange(batches.first, batches.last + 1)
        self._rows.append(BATCH, numbers, batches.records)
        if batches.recorded_batches.size:
            rows, dtype = batches.trainables, self._trainables_dtype
            if dtype is not None:
                rows = jax.tree.map(lambda leaf: leaf.astype(dtype), rows)
            self._rows.append(TRAINABLES, batches.recorded_batches, rows)
        for batch in np.intersect1d(self._spec_batches, numbers):
            arrays = eqx.filter(self._trials_of(int(batch), batches.state.hyperparameters), eqx.is_array)
            row = jax.tree.map(lambda leaf: np.asarray(leaf)[None], arrays)
            self._rows.append(TRIALS, batch[None], row)

    def on_updates(self, batch: int, records: Records, state: TrainState) -> None:
        self.on_replacement(batch, records)

    def on_replacement(self, batch: int, records: Records) -> None:
        for name, arrays in records.items():
            self._check_form("a population update must record", name, arrays)
            row = {array: values[None] for array, values in arrays.items()}
            self._rows.append(update_axis(name), np.array([batch]), row)

    def on_log_point(self, entry: LogEntry) -> None:
        self._check_form("`validation_metrics` must return", VALIDATION, entry.metrics)
        record = ValidationRecord(entry.validation_loss, entry.metrics)
        row = jax.tree.map(lambda leaf: leaf[None], record)
        self._rows.append(VALIDATION, np.array([entry.batch]), row)

    def _check_form(self, subject: str, axis: str, arrays: Mapping[str, np.ndarray]) -> None:
        form = {name: values.shape for name, values in arrays.items()}
        if (before := self._forms.setdefault(axis, form)) != form:
            raise ValueError(f"{subject} the same names and shapes each time, got {form} after {before}.")

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
