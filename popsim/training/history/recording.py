"""Histories as rows: what a training records, and what is saved and opened."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from popsim._shared.text_checks import check_path
from popsim.ensemble import Members
from popsim.loss import LossValues
from popsim.store import GrowingArrays, open_arrays
from popsim.store.array_group import remove_arrays
from popsim.store.run_folder import RunFolder
from popsim.training.history.history import BATCH, TaskTrainerHistory
from popsim.training.loop.training_plan import TrainingPlan
from popsim.training.observers import FinishedBatches, LogEntry, Observer, Records
from popsim.training.steps.member_step import BatchRecord
from popsim.training.steps.train_state import TrainState, named_arrays, with_named_arrays
from popsim.trial import Trial

__all__ = ["open_history", "save_history"]

VALIDATION = "validation_batch"
TRAINABLES = "trainables_batch"
TRIALS = "trials_batch"
METRIC = "metric."
PREFIXES = {VALIDATION: METRIC, TRAINABLES: "trainables.", TRIALS: "trials."}
BY_TERM = ("loss", "loss_weights", "validation_loss")  # of batches and validations: their last axis

Rows = Mapping[str, Any]
"""Arrays by the names that they have on disk, with a leading axis of rows."""
NamedRows = Mapping[str, tuple[tuple[str, ...], np.ndarray]]
"""Rows as `GrowingArrays` keep them: with the names of their other axes, and the numbers of their batches."""


def update_axis(name: str) -> str:
    """Return the axis of the rows of population updates that are recorded as `name`, such as "selection"."""
    return f"{name}_batch"


def with_axes(axis: str, batches: Any, rows: Rows, *, by_member: bool) -> NamedRows:
    """Return the rows of an axis with the names of their other axes, and the numbers of their batches."""
    member = ("member",) if by_member else ()
    named: dict[str, tuple[tuple[str, ...], np.ndarray]] = {axis: ((), np.asarray(batches))}
    for name, array in rows.items():
        own = name.removeprefix(PREFIXES.get(axis, ""))
        further = tuple(f"{own} axis {i}" for i in range(array.ndim - 1 - len(member)))
        has_terms = axis in (BATCH, VALIDATION) and name in BY_TERM
        named[name] = ((*member, *(("term",) if has_terms else further)), array)
    return named


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


class RowsInMemory:
    """Rows in memory, as `GrowingArrays` on disk; those of a known number are written where they stay."""

    def __init__(self, n_rows: dict[str, int]):
        self.attributes: dict[str, Any] = {}
        self._n_rows = n_rows
        self._n_filled: dict[str, int] = {}
        self._pieces: dict[str, dict[str, list[np.ndarray]]] = {}

    def append(self, axis: str, rows: NamedRows) -> None:
        """Append copies of rows."""
        pieces, begin = self._pieces.setdefault(axis, {}), self._n_filled.get(axis, 0)
        self._n_filled[axis] = end = begin + len(rows[axis][1])
        for name, (_, new) in rows.items():
            if axis not in self._n_rows:
                pieces.setdefault(name, []).append(np.copy(new))
                continue
            if name not in pieces:
                pieces[name] = [np.empty((self._n_rows[axis], *new.shape[1:]), new.dtype)]
            pieces[name][0][begin:end] = new

    def read(self, axis: str) -> dict[str, np.ndarray]:
        return {
            name: (pieces[0] if len(pieces) == 1 else np.concatenate(pieces))[: self._n_filled[axis]]
            for name, pieces in self._pieces.get(axis, {}).items()
        }


class HistoryRecorder(Observer):
    """Passes what a training computes to the rows of its history."""

    is_recording = True

    def __init__(self, rows: RowsInMemory | GrowingArrays, plan: TrainingPlan):
        self._rows, self._plan = rows, plan
        self._trainables = {"trainables": eqx.filter(plan.state.model, plan.recorded)}
        self._trials = {"trials": eqx.filter(plan.first_trials, eqx.is_array)}
        self._forms: dict[str, dict[str, tuple[int, ...]]] = {}

    def _append(self, axis: str, batches: Any, rows: Rows) -> None:
        by_member = self._plan.trials_by_member if axis == TRIALS else self._plan.count is not None
        self._rows.append(axis, with_axes(axis, batches, rows, by_member=by_member))

    def on_batches(self, batches: FinishedBatches) -> None:
        numbers = np.arange(batches.first, batches.last + 1)
        self._rows.attributes["terms"] = sorted(batches.records.loss.terms)
        self._append(BATCH, numbers, batch_rows(batches.records))
        if batches.recorded_batches.size:
            rows, dtype = batches.trainables, self._plan.training.trainables_dtype
            if dtype is not None:
                rows = jax.tree.map(lambda leaf: leaf.astype(dtype), rows)
            self._append(TRAINABLES, batches.recorded_batches, named_arrays({"trainables": rows}))
        for batch in np.intersect1d(self._plan.batches.specs, numbers):
            trials = self._plan.trials_of(int(batch), batches.state.hyperparameters)
            arrays = eqx.filter(trials, eqx.is_array)
            row = jax.tree.map(lambda leaf: np.asarray(leaf)[None], arrays)
            self._append(TRIALS, batch[None], named_arrays({"trials": row}))

    def on_updates(self, batch: int, records: Records, state: TrainState) -> None:
        self.on_replacement(batch, records)

    def on_replacement(self, batch: int, records: Records) -> None:
        for name, arrays in records.items():
            self._check_form("a population update must record", name, arrays)
            row = {array: values[None] for array, values in arrays.items()}
            self._append(update_axis(name), [batch], row)

    def on_log_point(self, entry: LogEntry) -> None:
        self._check_form("`validation_metrics` must return", VALIDATION, entry.metrics)
        row = {name: values[None] for name, values in validation_rows(entry).items()}
        self._append(VALIDATION, [entry.batch], row)

    def _check_form(self, subject: str, axis: str, arrays: Mapping[str, np.ndarray]) -> None:
        form = {name: values.shape for name, values in arrays.items()}
        if (before := self._forms.setdefault(axis, form)) != form:
            raise ValueError(f"{subject} the same names and shapes each time, got {form} after {before}.")

    def history(self, state: TrainState) -> TaskTrainerHistory:
        """Return the history so far, with values from the last state."""
        gather, updates = self._plan.layout.gather, self._plan.population_updates
        terms = self._rows.attributes["terms"]
        batch, records = self._read(BATCH)
        validation_batch, validation = self._read(VALIDATION)
        if not validation:  # stopped before the first log point
            validation = {"validation_loss": records["loss"][:0]}
        trainables_batch, trainables = self._read(TRAINABLES)
        trials_batch, trials = self._read(TRIALS)
        without_arrays = eqx.filter(self._plan.first_trials, eqx.is_array, inverse=True)

        def trials_at(row: int) -> Trial:
            read = with_named_arrays(self._trials, lambda name: jnp.asarray(trials[name][row]))
            return eqx.combine(read["trials"], without_arrays)

        kept = None
        if trainables:
            kept = with_named_arrays(self._trainables, trainables.__getitem__)["trainables"]
        weights = records.get("loss_weights")
        logged = [name for name in validation if name.startswith(METRIC)]
        axes = {name: self._read(update_axis(name)) for name in updates.axes}
        acts = {name: {BATCH: batches, **rows} for name, (batches, rows) in axes.items() if batches.size}
        return TaskTrainerHistory(
            batch=batch,
            loss=LossValues(split_terms(records["loss"], terms)),
            learning_rate=records["learning_rate"],
            loss_weights=None if weights is None else split_terms(weights, terms),
            validation_batch=validation_batch,
            validation_loss=LossValues(split_terms(validation["validation_loss"], terms)),
            metrics={name.removeprefix(METRIC): validation[name] for name in logged},
            trainables_batch=trainables_batch,
            model_trainables=kept,
            trial_specs={number: trials_at(row) for row, number in enumerate(trials_batch.tolist())},
            frozen_from=np.asarray(gather(state.loss_fn_state.frozen_from)),
            opt_state=gather(state.opt_state),
            members=self._plan.training.members,
            stopped_from=np.asarray(gather(state.loss_fn_state.stops)),
            updates=acts,
        )

    def _read(self, axis: str) -> tuple[Int[np.ndarray, " row"], Rows]:
        """Return the batches and the rows of an axis; without arrays if there are none."""
        rows = self._rows.read(axis)
        batches = np.asarray(rows.pop(axis, np.zeros(0, int)))
        # Trainables on disk stay lazy, as the largest part of a history.
        read = {name: array if axis == TRAINABLES else np.asarray(array) for name, array in rows.items()}
        return batches, read if batches.size else {}


def create_arrays(
    path: Path, n_members: int | None, members: Members | None, run_id: str | None = None, **attributes: Any
) -> GrowingArrays:
    """Create the arrays of a history, with the number of its members, and their settings and seeds."""
    if n_members is not None:
        attributes["n_members"] = n_members
    if n_members is not None and members is not None:
        labels = {f"setting.{name}": values for name, values in members.settings.items()}
        labels["seed"] = members.ids
        attributes["members"] = {name: values.tolist() for name, values in labels.items()}
    return GrowingArrays.create(path, attributes=attributes, run_id=run_id)


def save_history(path: str | Path, history: TaskTrainerHistory, *, untrained: Any = None) -> None:
    """Write the history of an ensemble, or of one model, into a new folder.

    Losses, and their weights if they changed, have axes (batch, member, term); validation losses
    (validation_batch, member, term), and metrics, named "metric." and their name, (validation_batch, member,
    ...). A trainable array is named "trainables." and its path in the model, with axes (trainables_batch,
    member, ...); an array of recorded trials "trials." and its path, with axes (trials_batch, ...). One model
    has no member axis. What population updates did has the names in `history.updates`. Settings and seeds of
    members are coordinates, "setting.NAME" and "seed". The optimizer state is not written.

    **Arguments:**

    - `path`, `history`: the folder, a zarr group, which must not exist, and what `TaskTrainer` returned.
    - `untrained`: the ensemble or model before training. Its trainables are the first row, after batch -1.
    """
    check_path("path", path)
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
        TRAINABLES: (kept_after, named_arrays({"trainables": trainables})),
        TRIALS: (np.array([*history.trial_specs], int), _rows_of_trials([*history.trial_specs.values()])),
    }
    n_members = history.learning_rate.shape[1] if is_ensemble else None
    arrays = create_arrays(Path(path), n_members, history.members)
    arrays.attributes["terms"] = sorted(history.loss.terms)
    arrays.attributes |= batches_of_ends(history.frozen_from, history.stopped_from)
    try:
        with contextlib.closing(arrays):
            for axis, (batches, arrays_of_axis) in rows.items():
                if batches.size:
                    by_member = is_ensemble and axis != TRIALS
                    arrays.append(axis, with_axes(axis, batches, arrays_of_axis, by_member=by_member))
            arrays.commit()
    except BaseException:
        remove_arrays(Path(path))
        raise


def batches_of_ends(frozen_from: Any, stopped_from: Any) -> dict[str, Any]:
    """Return from which batches on members are frozen and stopped, as attributes of a history."""
    return {
        "frozen_from": np.asarray(frozen_from).tolist(),
        "stopped_from": np.asarray(stopped_from).tolist(),
    }


def _rows_of_trials(trials: Sequence[Trial]) -> Rows:
    arrays = [named_arrays({"trials": eqx.filter(trial, eqx.is_array)}) for trial in trials]
    return {name: np.stack([trial[name] for trial in arrays]) for name in (arrays[0] if arrays else ())}


def open_history(path: str | Path, *, run_id: str | None = None) -> Any:
    """Open a saved history, or that of a training in its folder, as a lazy `xarray.Dataset`.

    Names and axes are those of `save_history`. Values are read on access. For a running training it holds the
    rows present when it was opened. The history of a grid of settings and seeds is grouped by
    `history.set_index(member=["setting.noise", "seed"]).unstack("member")`, with the names of its settings.

    **Arguments:**

    - `path`: the folder of the history, or that of a training or run.
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
    member = ()
    if "n_members" in attributes:
        member, dataset = ("member",), dataset.assign_coords(member=np.arange(attributes["n_members"]))
    for name in ("frozen_from", "stopped_from"):
        if name in attributes:
            dataset = dataset.assign({name: (member, np.asarray(attributes[name], int))})
    for name, values in attributes.get("members", {}).items():
        further = (f"{name} axis {axis}" for axis in range(np.ndim(values) - 1))
        dataset = dataset.assign_coords({name: (("member", *further), np.asarray(values))})
    return dataset
