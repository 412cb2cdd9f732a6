"""Histories on disk, as arrays with named axes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int, PyTree

from popsim._shared.text_checks import check_path
from popsim.ensemble import Members
from popsim.loss import LossValues
from popsim.store import GrowingArrays, leaf_names, open_arrays
from popsim.store.array_group import remove_arrays
from popsim.store.run_folder import RunFolder
from popsim.training.history.history import (
    BATCH,
    TRAINABLES,
    TRIALS,
    VALIDATION,
    AbstractHistoryRows,
    TaskTrainerHistory,
    ValidationRecord,
    update_axis,
)
from popsim.training.steps.member_step import BatchRecord

__all__ = ["save_history", "open_history"]

NamedRows = Mapping[str, tuple[tuple[str, ...], np.ndarray]]
PREFIXES = {TRAINABLES: "trainables.", TRIALS: "trials."}
METRIC = "metric."


def named_rows(axis: str, rows: PyTree, members_of: Callable[[str], tuple[str, ...]]) -> NamedRows:
    """Return rows of a history by name, each with the names of the axes of one row.

    `members_of` returns ("member",) for an axis whose rows have a member axis, else ().
    """
    member = members_of(axis)

    def named(arrays: Mapping[str, Any], prefix: str = "") -> NamedRows:
        return {prefix + name: _with_named_axes(name, values, member) for name, values in arrays.items()}

    if axis == BATCH:
        weights = {} if rows.loss_weights is None else {"loss_weights": _by_term(rows.loss_weights, member)}
        return {
            "loss": _by_term(rows.loss.terms, member),
            "learning_rate": (member, rows.learning_rate),
            **weights,
        }
    if axis == VALIDATION:
        return {"validation_loss": _by_term(rows.loss.terms, member), **named(rows.metrics, METRIC)}
    if axis not in PREFIXES:  # of population updates
        return named(rows)
    leaves = jax.tree.leaves(rows)
    return named({name: leaves[index] for name, index in leaf_names(rows).items()}, PREFIXES[axis])


def rows_of_names(axis: str, arrays: Mapping[str, Any], terms: list[str], like: PyTree) -> PyTree:
    """Invert `named_rows`; arrays may be lazy, and trainables and trials have the structure of `like`."""
    if axis == BATCH:
        weights = _of_terms(arrays["loss_weights"], terms) if "loss_weights" in arrays else None
        losses = LossValues(_of_terms(arrays["loss"], terms))
        return BatchRecord(losses, np.asarray(arrays["learning_rate"]), weights)
    if axis == VALIDATION:
        losses = LossValues(_of_terms(arrays["validation_loss"], terms))
        metrics = [name for name in arrays if name.startswith(METRIC)]
        return ValidationRecord(
            losses, {name.removeprefix(METRIC): np.asarray(arrays[name]) for name in metrics}
        )
    if axis not in PREFIXES:  # of population updates
        return {name: np.asarray(array) for name, array in arrays.items()}
    leaves, structure = jax.tree.flatten(like)
    for name, index in leaf_names(like).items():
        leaves[index] = arrays[PREFIXES[axis] + name]
    return jax.tree.unflatten(structure, leaves)


def _by_term(terms: Mapping[str, Any], member: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    values = np.stack([np.asarray(terms[name]) for name in sorted(terms)], axis=-1)
    return (*member, "term"), values


def _of_terms(values: Any, terms: list[str]) -> dict[str, Any]:
    values = np.asarray(values)
    return {name: values[..., index] for index, name in enumerate(terms)}


def _with_named_axes(
    name: str, rows: np.ndarray, member: tuple[str, ...]
) -> tuple[tuple[str, ...], np.ndarray]:
    further_axes = tuple(f"{name} axis {axis}" for axis in range(rows.ndim - 1 - len(member)))
    return (*member, *further_axes), rows


class RowsOnDisk(AbstractHistoryRows):
    """Rows in growing arrays; `like`, of trainables and trials, has the structure of a row."""

    def __init__(
        self, path: Path, arrays: GrowingArrays, *, like: dict[str, PyTree], by_member: frozenset[str]
    ):
        self._path, self._arrays, self._attributes = path, arrays, arrays.attributes
        self._like, self._by_member = like, by_member

    def append(self, axis: str, batches: Int[np.ndarray, " row"], rows: PyTree[np.ndarray]) -> None:
        if axis == BATCH:
            self._attributes["terms"] = sorted(rows.loss.terms)
        self._arrays.append(
            axis, {axis: ((), np.asarray(batches)), **named_rows(axis, rows, self._members_of)}
        )

    def _members_of(self, axis: str) -> tuple[str, ...]:
        return ("member",) if axis in self._by_member else ()

    @property
    def n_rows(self) -> dict[str, int]:
        """The number of rows so far, by axis."""
        return self._arrays.appended_lengths

    def commit(self, n_rows: dict[str, int], **attributes: Any) -> None:
        """Write the rows, then how many to keep of each axis, with further JSON values."""
        self._attributes |= attributes
        # Batches are appended as they are made, also those that came after the state to be saved.
        if self._arrays.commit(self._attributes) != n_rows:
            self._arrays.truncate(n_rows)

    def rows(self, axis: str) -> tuple[Int[np.ndarray, " row"], PyTree]:
        dataset = open_arrays(self._path, run_id=self._arrays.run_id)
        if dataset.sizes.get(axis, 0) == 0:
            return np.zeros(0, int), None
        arrays = {str(name): array for name, array in dataset.data_vars.items() if array.dims[0] == axis}
        if axis == TRIALS:
            # Trainables stay lazy, as the largest part of a history.
            arrays = {name: array.values for name, array in arrays.items()}
        rows = rows_of_names(axis, arrays, dataset.attrs["terms"], self._like.get(axis))
        return dataset[axis].values, rows


def save_history(path: str | Path, history: TaskTrainerHistory, *, untrained: Any = None) -> None:
    """Write the history of an ensemble, or of one model, into a new folder.

    Losses, and their weights if they changed, have axes (batch, member, term). Validation losses have axes
    (validation_batch, member, term); metrics, named "metric." and their name, have (validation_batch, member,
    ...). A trainable array is named "trainables." and its path in the model, with axes (trainables_batch,
    member, ...); an array of recorded trials "trials." and its path, with axes (trials_batch, ...). The
    history of one model has no member axis. What population updates did has the names in `history.updates`,
    with axes such as (selection_batch, member). Settings and seeds of members become coordinates of the
    member axis, "setting.NAME" and "seed". The optimizer state is not written; checkpoints hold it.

    **Arguments:**

    - `path`: the folder, a zarr group; it must not exist.
    - `history`: a history returned by `TaskTrainer`.
    - `untrained`: the ensemble or model before training. If given, its trainables are the first row, after
        batch -1.
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
    trials = [eqx.filter(trials, eqx.is_array) for trials in history.trial_specs.values()]
    rows = {
        BATCH: (history.batch, BatchRecord(history.loss, history.learning_rate, history.loss_weights)),
        VALIDATION: (history.validation_batch, ValidationRecord(history.validation_loss, history.metrics)),
        **{
            update_axis(name): (rows[BATCH], {array: rows[array] for array in rows if array != BATCH})
            for name, rows in history.updates.items()
        },
        TRAINABLES: (kept_after, trainables),
        TRIALS: (
            np.array([*history.trial_specs], int),
            jax.tree.map(lambda *leaves: np.stack(leaves), *trials) if trials else None,
        ),
    }
    n_members = history.learning_rate.shape[1] if is_ensemble else None
    arrays = create_arrays(Path(path), n_members, history.members)
    by_member = frozenset({*rows} - {TRIALS} if is_ensemble else ())
    on_disk = RowsOnDisk(Path(path), arrays, like={}, by_member=by_member)
    end_batches = {"frozen_from": history.frozen_from.tolist(), "stopped_from": history.stopped_from.tolist()}
    try:
        for axis, (batches, tree) in rows.items():
            if batches.size:
                on_disk.append(axis, batches, tree)
        on_disk.commit(on_disk.n_rows, **end_batches)
    except BaseException:
        arrays.close()
        remove_arrays(Path(path))
        raise
    arrays.close()


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
    """Return the dataset with the labels in the attributes of the history."""
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


def create_arrays(
    path: Path,
    n_members: int | None,
    members: Members | None,
    *,
    run_id: str | None = None,
    **attributes: Any,
) -> GrowingArrays:
    """Create the arrays of a history: with the numbers of its members, and their settings and seeds."""
    if n_members is not None and members is not None:
        labels = {f"setting.{name}": values for name, values in members.settings.items()}
        labels["seed"] = members.ids
        attributes["members"] = {name: values.tolist() for name, values in labels.items()}
    fixed = {} if n_members is None else {"member": (("member",), np.arange(n_members))}
    return GrowingArrays.create(path, fixed=fixed, attributes=attributes, run_id=run_id)
