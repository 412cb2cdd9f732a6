"""Histories as rows: what a training records, and what is saved and opened."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from popsim._shared.text_checks import check_path
from popsim.loss import LossValues
from popsim.store import leaf_names, open_arrays
from popsim.store.array_group import remove_arrays
from popsim.store.run_folder import RunFolder
from popsim.training.history.history import (
    BATCH,
    METRIC,
    PREFIXES,
    TRAINABLES,
    TRIALS,
    VALIDATION,
    Rows,
    RowsOnDisk,
    TaskTrainerHistory,
    create_arrays,
    update_axis,
)
from popsim.training.loop.training_plan import TrainingPlan
from popsim.training.observers import FinishedBatches, LogEntry, Observer, Records
from popsim.training.steps.member_step import BatchRecord
from popsim.training.steps.train_state import TrainState
from popsim.trial import Trial

__all__ = ["open_history", "save_history"]


def batch_rows(record: BatchRecord | TaskTrainerHistory) -> Rows:
    """Return the rows of batches."""
    weights = record.loss_weights
    changed = {} if weights is None else {"loss_weights": _by_term(weights)}
    return {"loss": _by_term(record.loss.terms), "learning_rate": record.learning_rate, **changed}


def validation_rows(record: LogEntry | TaskTrainerHistory) -> Rows:
    """Return the rows of validations."""
    metrics = {METRIC + name: values for name, values in record.metrics.items()}
    return {"validation_loss": _by_term(record.validation_loss.terms), **metrics}


def _by_term(terms: Mapping[str, Any]) -> np.ndarray:
    return np.stack([np.asarray(terms[name]) for name in sorted(terms)], axis=-1)


def split_terms(values: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return an array by term as the arrays of the terms."""
    return {name: values[..., index] for index, name in enumerate(names)}


def rows_of_tree(axis: str, tree: PyTree) -> Rows:
    """Return the rows of trainables or of trials."""
    leaves = jax.tree.leaves(tree)
    return {PREFIXES[axis] + name: leaves[index] for name, index in leaf_names(tree).items()}


class RowsInMemory:
    """Rows as `RowsOnDisk`, in memory; where their number is known, they are written where they stay."""

    def __init__(self, n_rows: dict[str, int]):
        self.term_names: Sequence[str] = ()
        self._n_rows = n_rows
        self._batches: dict[str, list[np.ndarray]] = {}
        self._pieces: dict[str, dict[str, list[np.ndarray]]] = {}

    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: Rows) -> None:
        """Append copies of rows."""
        numbers, pieces = self._batches.setdefault(axis, []), self._pieces.setdefault(axis, {})
        begin = sum(map(len, numbers))
        numbers.append(np.array(batches))
        for name, new in rows.items():
            if axis not in self._n_rows:
                pieces.setdefault(name, []).append(np.copy(new))
                continue
            if name not in pieces:
                pieces[name] = [np.empty((self._n_rows[axis], *new.shape[1:]), new.dtype)]
            pieces[name][0][begin : begin + len(batches)] = new

    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], Rows]:
        """Return all rows of an axis."""
        if axis not in self._batches:
            return np.zeros(0, int), {}
        batches = np.concatenate(self._batches[axis])
        arrays = {
            name: pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            for name, pieces in self._pieces[axis].items()
        }
        return batches, {name: array[: batches.size] for name, array in arrays.items()}


class HistoryRecorder(Observer):
    """Passes what a training computes to the rows of its history."""

    is_recording = True

    def __init__(self, rows: RowsInMemory | RowsOnDisk, plan: TrainingPlan):
        self._rows, self._plan = rows, plan
        self._like = {
            TRAINABLES: eqx.filter(plan.state.model, plan.recorded),
            TRIALS: eqx.filter(plan.first_trials, eqx.is_array),
        }
        self._forms: dict[str, dict[str, tuple[int, ...]]] = {}

    def on_batches(self, batches: FinishedBatches) -> None:
        numbers = np.arange(batches.first, batches.last + 1)
        self._rows.term_names = sorted(batches.records.loss.terms)
        self._rows.append(BATCH, numbers, batch_rows(batches.records))
        if batches.recorded_batches.size:
            rows, dtype = batches.trainables, self._plan.training.trainables_dtype
            if dtype is not None:
                rows = jax.tree.map(lambda leaf: leaf.astype(dtype), rows)
            self._rows.append(TRAINABLES, batches.recorded_batches, rows_of_tree(TRAINABLES, rows))
        for batch in np.intersect1d(self._plan.batches.specs, numbers):
            trials = self._plan.trials_of(int(batch), batches.state.hyperparameters)
            arrays = eqx.filter(trials, eqx.is_array)
            row = jax.tree.map(lambda leaf: np.asarray(leaf)[None], arrays)
            self._rows.append(TRIALS, batch[None], rows_of_tree(TRIALS, row))

    def on_updates(self, batch: int, records: Records, state: TrainState) -> None:
        self.on_replacement(batch, records)

    def on_replacement(self, batch: int, records: Records) -> None:
        for name, arrays in records.items():
            self._check_form("a population update must record", name, arrays)
            row = {array: values[None] for array, values in arrays.items()}
            self._rows.append(update_axis(name), np.array([batch]), row)

    def on_log_point(self, entry: LogEntry) -> None:
        self._check_form("`validation_metrics` must return", VALIDATION, entry.metrics)
        row = {name: values[None] for name, values in validation_rows(entry).items()}
        self._rows.append(VALIDATION, np.array([entry.batch]), row)

    def _check_form(self, subject: str, axis: str, arrays: Mapping[str, np.ndarray]) -> None:
        form = {name: values.shape for name, values in arrays.items()}
        if (before := self._forms.setdefault(axis, form)) != form:
            raise ValueError(f"{subject} the same names and shapes each time, got {form} after {before}.")

    def history(self, state: TrainState) -> TaskTrainerHistory:
        """Return the history so far, with values from the last state."""
        gather, updates = self._plan.layout.gather, self._plan.population_updates
        terms = self._rows.term_names
        batch, records = self._rows.rows(BATCH)
        validation_batch, validation = self._rows.rows(VALIDATION)
        if not validation:  # stopped before the first log point
            validation = {"validation_loss": records["loss"][:0]}
        trainables_batch, trainables = self._rows.rows(TRAINABLES)
        trials_batch, trials = self._rows.rows(TRIALS)
        without_arrays = eqx.filter(self._plan.first_trials, eqx.is_array, inverse=True)

        def trials_at(row: int) -> Trial:
            arrays = {name: jnp.asarray(values[row]) for name, values in trials.items()}
            return eqx.combine(self._tree(TRIALS, arrays), without_arrays)

        weights = records.get("loss_weights")
        logged = [name for name in validation if name.startswith(METRIC)]
        rows_of_updates = {name: self._rows.rows(update_axis(name)) for name in updates.axes}
        return TaskTrainerHistory(
            batch=batch,
            loss=LossValues(split_terms(records["loss"], terms)),
            learning_rate=records["learning_rate"],
            loss_weights=None if weights is None else split_terms(weights, terms),
            validation_batch=validation_batch,
            validation_loss=LossValues(split_terms(validation["validation_loss"], terms)),
            metrics={name.removeprefix(METRIC): validation[name] for name in logged},
            trainables_batch=trainables_batch,
            model_trainables=self._tree(TRAINABLES, trainables) if trainables else None,
            trial_specs={number: trials_at(row) for row, number in enumerate(trials_batch.tolist())},
            frozen_from=np.asarray(gather(state.loss_fn_state.frozen_from)),
            opt_state=gather(state.opt_state),
            members=self._plan.training.members,
            stopped_from=np.asarray(gather(state.loss_fn_state.stops)),
            updates={
                name: {BATCH: batches, **rows}
                for name, (batches, rows) in rows_of_updates.items()
                if batches.size
            },
        )

    def _tree(self, axis: str, rows: Rows) -> PyTree:
        """Return trainables or trials as they were; arrays may be lazy."""
        leaves, structure = jax.tree.flatten(self._like[axis])
        for name, index in leaf_names(self._like[axis]).items():
            leaves[index] = rows[PREFIXES[axis] + name]
        return jax.tree.unflatten(structure, leaves)


def save_history(path: str | Path, history: TaskTrainerHistory, *, untrained: Any = None) -> None:
    """Write the history of an ensemble, or of one model, into a new folder.

    Losses, and their weights if they changed, have axes (batch, member, term); validation losses
    (validation_batch, member, term), and metrics, named "metric." and their name, (validation_batch, member,
    ...). A trainable array is named "trainables." and its path in the model, with axes (trainables_batch,
    member, ...); an array of recorded trials "trials." and its path, with axes (trials_batch, ...). One model
    has no member axis. What population updates did has the names in `history.updates`. Settings and seeds of
    members are coordinates, "setting.NAME" and "seed". The optimizer state is not written.

    **Arguments:**

    - `path`: the folder, a zarr group; it must not exist.
    - `history`: a history returned by `TaskTrainer`.
    - `untrained`: the ensemble or model before training. Its trainables are the first row, after batch -1.
    """
    check_path("path", path)
    if Path(path).exists():
        raise ValueError(f"`path` must not exist, got {path}.")
    is_ensemble = history.learning_rate.ndim == 2
    kept_after, trainables = history.trainables_batch, history.model_trainables
    if untrained is not None:
        if kept_after.size == 0:
            raise ValueError(
                "`untrained` needs a history with trainables: train with `save_model_trainables`."
            )
        kept_after = np.concatenate([[-1], kept_after])
        trainables = jax.tree.map(
            lambda rows, first: None if rows is None else np.concatenate([np.asarray(first)[None], rows]),
            trainables,
            untrained,
            is_leaf=lambda rows: rows is None,
        )
    rows = {
        BATCH: (history.batch, batch_rows(history)),
        VALIDATION: (history.validation_batch, validation_rows(history)),
        **{
            update_axis(name): (rows[BATCH], {array: rows[array] for array in rows if array != BATCH})
            for name, rows in history.updates.items()
        },
        TRAINABLES: (kept_after, rows_of_tree(TRAINABLES, trainables)),
        TRIALS: (np.array([*history.trial_specs], int), _rows_of_trials([*history.trial_specs.values()])),
    }
    n_members = history.learning_rate.shape[1] if is_ensemble else None
    arrays = create_arrays(Path(path), n_members, history.members)
    on_disk = RowsOnDisk(Path(path), arrays, has_members=is_ensemble)
    on_disk.term_names = sorted(history.loss.terms)
    end_batches = {"frozen_from": history.frozen_from.tolist(), "stopped_from": history.stopped_from.tolist()}
    try:
        for axis, (batches, arrays_of_axis) in rows.items():
            if batches.size:
                on_disk.append(axis, batches, arrays_of_axis)
        on_disk.commit(on_disk.n_rows, **end_batches)
    except BaseException:
        arrays.close()
        remove_arrays(Path(path))
        raise
    arrays.close()


def _rows_of_trials(trials: Sequence[Trial]) -> Rows:
    arrays = [rows_of_tree(TRIALS, eqx.filter(each, eqx.is_array)) for each in trials]
    return {name: np.stack([each[name] for each in arrays]) for name in (arrays[0] if arrays else ())}


def open_history(path: str | Path, *, run_id: str | None = None) -> Any:
    """Open a saved history, or that of a training in its folder, as a lazy `xarray.Dataset`.

    Names and axes are those of `save_history`. Values are read on access. For a running training it holds the
    rows present when it was opened. The history of a grid of settings and seeds is grouped by
    `history.set_index(member=["setting.noise", "seed"]).unstack("member")`, with the names of its settings.

    **Arguments:**

    - `path`: the folder of the history, or that of a training or run, which holds it as `history.zarr`.
    - `run_id`: the expected id of the run; None accepts any.

    **Raises:** `ValueError` if there is no history at `path`; `CorruptDataError` if it is not as it was
    written; `MismatchError` if it is of another run.
    """
    check_path("path", path)
    within = RunFolder(Path(path)).history
    return _with_labels(open_arrays(within if within.exists() else Path(path), run_id=run_id))


def _with_labels(dataset: Any) -> Any:
    attributes = dataset.attrs
    if "terms" in attributes:
        dataset = dataset.assign_coords(term=attributes["terms"])
    member = ("member",) if "member" in dataset.sizes else ()
    for name in ("frozen_from", "stopped_from"):
        if name in attributes:
            dataset = dataset.assign({name: (member, np.asarray(attributes[name], int))})
    settings = {name: np.asarray(values) for name, values in attributes.get("members", {}).items()}
    return dataset.assign_coords(
        {
            name: (("member", *(f"{name} axis {axis}" for axis in range(values.ndim - 1))), values)
            for name, values in settings.items()
        }
    )
