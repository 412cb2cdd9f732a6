"""A training history on disk: named arrays with named axes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from popsim.store import leaf_names, open_arrays, write_arrays
from popsim.training import TaskTrainerHistory

TRAINABLES = "trainables."


def save_history(path: str | Path, history: TaskTrainerHistory, *, untrained: Any = None) -> None:
    """Write the history of an ensemble, or of one model, into a new folder.

    Losses, and their weights where they changed, have the axes (batch, member, term), validation losses
    (validation_batch, member, term), `frozen_from` has (member). A trainable array is called
    "trainables." and its path in the model, with the axes (trainables_batch, member, ...). The history of
    one model has no member axis. Settings and seeds of members become coordinates of the member axis,
    "setting.NAME" and "seed". Not written are trials, which are drawn again from their key, and the state
    of the optimizer.

    **Arguments:**

    - `path`: the folder, a zarr group; it must not exist.
    - `history`: what a `TaskTrainer` returned.
    - `untrained`: the ensemble, or the model, that the training began with. If it is given, its trainables
        are the first row, after batch -1.

    **Raises:** `ValueError` if `path` exists, or `untrained` is given and no trainables were kept.
    """
    if Path(path).exists():
        raise ValueError(f"`path` must not exist, got {path}.")
    terms = sorted(history.loss.terms)
    member = ("member",) if history.learning_rate.ndim == 2 else ()
    kept_after, trainables = _trainables(history, untrained)
    arrays: dict[str, Any] = {
        "batch": (("batch",), history.batch),
        "loss": (("batch", *member, "term"), _by_term(history.loss.terms, terms)),
        "learning_rate": (("batch", *member), history.learning_rate),
        "validation_batch": (("validation_batch",), history.validation_batch),
        "validation_loss": (
            ("validation_batch", *member, "term"),
            _by_term(history.validation_loss.terms, terms),
        ),
        "trainables_batch": (("trainables_batch",), kept_after),
        "frozen_from": (member, np.asarray(history.frozen_from)),
    }
    if member:
        arrays["member"] = (member, np.arange(history.learning_rate.shape[1]))
    if history.loss_weights is not None:
        arrays["loss_weights"] = (("batch", *member, "term"), _by_term(history.loss_weights, terms))
    leaves = jax.tree.leaves(trainables)
    for name, index in leaf_names(trainables).items():
        n_own = leaves[index].ndim - 1 - len(member)
        own_axes = [f"{name} axis {axis}" for axis in range(n_own)]
        arrays[TRAINABLES + name] = (("trainables_batch", *member, *own_axes), leaves[index])
    attributes: dict[str, Any] = {"terms": terms}
    if history.members is not None and member:
        labels = {f"setting.{name}": values for name, values in history.members.settings.items()}
        by_member = labels | {"seed": history.members.ids}
        attributes["members"] = {name: values.tolist() for name, values in by_member.items()}
    write_arrays(Path(path), arrays, attributes=attributes)


def open_history(path: str | Path) -> Any:
    """A saved history as a lazy `xarray.Dataset`, with the names and axes of `save_history`.

    The history of a grid of settings and seeds is grouped by
    `history.set_index(member=["setting.noise", "seed"]).unstack("member")`, with the names of its settings.

    **Raises:** `ValueError` if there is none at `path`.
    """
    dataset = open_arrays(Path(path))
    if "terms" not in dataset.attrs:
        raise ValueError(f"`path` must be a saved history, got {path}: it names no terms of a loss.")
    dataset = dataset.assign_coords(term=dataset.attrs["terms"])
    settings = {name: np.asarray(values) for name, values in dataset.attrs.get("members", {}).items()}
    return dataset.assign_coords(
        {
            name: (("member", *(f"{name} axis {axis}" for axis in range(values.ndim - 1))), values)
            for name, values in settings.items()
        }
    )


def _by_term(values: Mapping[str, Any], terms: list[str]) -> np.ndarray:
    return np.stack([values[name] for name in terms], axis=-1)


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
