"""A training history on disk: named arrays with named axes."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from popsim.members import Members
from popsim.store import DamagedError, GrowingArrays, open_arrays
from popsim.training.history import TaskTrainerHistory, ValidationRecord
from popsim.training.history_arrays import named_rows
from popsim.training.history_rows import BATCH, TRAINABLES, TRIALS, VALIDATION
from popsim.training.member_step import BatchRecord


def save_history(path: str | Path, history: TaskTrainerHistory, *, untrained: Any = None) -> None:
    """Write the history of an ensemble, or of one model, into a new folder.

    Losses, and their weights where they changed, have the axes (batch, member, term), validation losses
    (validation_batch, member, term), and so do metrics, called "metric." and their name. A trainable array
    is called "trainables." and its path in the model, with the axes (trainables_batch, member, ...), an
    array of recorded trials "trials." and its path, with (trials_batch, ...). The history of one model has
    no member axis. Settings and seeds of members become coordinates of the member axis,
    "setting.NAME" and "seed". The optimizer's state is not written: checkpoints hold it.

    **Arguments:**

    - `path`: the folder, a zarr group; it must not exist.
    - `history`: what a `TaskTrainer` returned.
    - `untrained`: the ensemble, or the model, that the training began with. If it is given, its trainables
        are the first row, after batch -1.

    **Raises:** `ValueError` if `path` exists, or `untrained` is given and no trainables were kept.
    """
    if Path(path).exists():
        raise ValueError(f"`path` must not exist, got {path}.")
    is_ensemble = history.learning_rate.ndim == 2
    kept_after, trainables = _trainables(history, untrained)
    trials = [eqx.filter(trials, eqx.is_array) for trials in history.trial_specs.values()]
    rows = {
        BATCH: (history.batch, BatchRecord(history.loss, history.learning_rate, history.loss_weights)),
        VALIDATION: (history.validation_batch, ValidationRecord(history.validation_loss, history.metrics)),
        TRAINABLES: (kept_after, trainables),
        TRIALS: (
            np.array([*history.trial_specs], int),
            jax.tree.map(lambda *own: np.stack(own), *trials) if trials else None,
        ),
    }
    arrays = GrowingArrays.create(
        Path(path),
        fixed=member_axis(history.learning_rate.shape[1] if is_ensemble else None),
        attributes=member_labels(history.members if is_ensemble else None),
    )
    by_member = {BATCH, VALIDATION, TRAINABLES} if is_ensemble else set()
    for axis, (batches, tree) in rows.items():
        if batches.size:
            named = named_rows(axis, tree, lambda name: ("member",) if name in by_member else ())
            arrays.append(axis, {axis: ((), batches), **named})
    told = {"terms": sorted(history.loss.terms), "frozen_from": history.frozen_from.tolist()}
    arrays.commit(arrays.attributes | told)


def open_history(path: str | Path, *, run_id: str | None = None) -> Any:
    """A saved history, or that of a training in its folder, as a lazy `xarray.Dataset`.

    Names and axes are those of `save_history`. Only what is looked at is read. Of a training that still
    goes on it holds what was there when it was opened. The history of a grid of settings and seeds is
    grouped by `history.set_index(member=["setting.noise", "seed"]).unstack("member")`, with the names of
    its settings.

    **Arguments:**

    - `path`: its folder.
    - `run_id`: the identity of the run that it must be of; None takes any.

    **Raises:** `ValueError` if there is none at `path`; `DamagedError` if it is not as it was written;
    `MismatchError` if it is of another run.
    """
    dataset = open_arrays(Path(path), run_id=run_id)
    try:
        return _labelled(dataset)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DamagedError(f"the attributes of {path} must fit its arrays; it is damaged: {error}") from None


def _labelled(dataset: Any) -> Any:
    """With what the attributes of a history say of its axes."""
    attributes = dataset.attrs
    if "terms" in attributes:
        dataset = dataset.assign_coords(term=attributes["terms"])
    if "frozen_from" in attributes:
        member = ("member",) if "member" in dataset.sizes else ()
        dataset = dataset.assign(frozen_from=(member, np.asarray(attributes["frozen_from"], int)))
    settings = {name: np.asarray(values) for name, values in attributes.get("members", {}).items()}
    return dataset.assign_coords(
        {
            name: (("member", *(f"{name} axis {axis}" for axis in range(values.ndim - 1))), values)
            for name, values in settings.items()
        }
    )


def member_axis(n_members: int | None) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The numbers of the members, as an array that is kept with their history."""
    return {} if n_members is None else {"member": (("member",), np.arange(n_members))}


def member_labels(members: Members | None) -> dict[str, Any]:
    """Settings and seeds of members, as JSON values that are kept with their history."""
    if members is None:
        return {}
    labels = {f"setting.{name}": values for name, values in members.settings.items()} | {"seed": members.ids}
    return {"members": {name: values.tolist() for name, values in labels.items()}}


def _trainables(history: TaskTrainerHistory, untrained: Any) -> tuple[np.ndarray, PyTree]:
    """After which batches trainables were kept, and these: those of `untrained` first, if it is given."""
    if untrained is None:
        return history.trainables_batch, history.model_trainables
    if history.trainables_batch.size == 0:
        raise ValueError("`untrained` needs a history with trainables: train with `save_model_trainables`.")

    def with_first(rows, first):
        return None if rows is None else np.concatenate([np.asarray(first)[None], rows])

    rows = jax.tree.map(with_first, history.model_trainables, untrained, is_leaf=lambda leaf: leaf is None)
    return np.concatenate([[-1], history.trainables_batch]), rows
