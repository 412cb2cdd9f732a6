"""A training history as named arrays with named axes, for the store."""

from typing import Any

import jax
import numpy as np

from popsim.store import leaf_names
from popsim.training import TaskTrainerHistory

TRAINABLES = "trainables."


def history_arrays(history: TaskTrainerHistory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of an ensemble's history, by name with the names of their axes, and the group's attributes.

    Losses have the axes (batch, member, term), validation losses (validation_batch, member, term). A
    trainable array is called "trainables." and its path in the model, with the axes (trainables_batch,
    member, ...).
    """
    terms = sorted(history.loss.terms)
    n_members = history.learning_rate.shape[1]
    loss = np.stack([history.loss.terms[name] for name in terms], axis=-1)
    validation = np.stack([history.validation_loss.terms[name] for name in terms], axis=-1)
    arrays: dict[str, Any] = {
        "batch": (("batch",), history.batch),
        "member": (("member",), np.arange(n_members)),
        "loss": (("batch", "member", "term"), loss),
        "learning_rate": (("batch", "member"), history.learning_rate),
        "validation_batch": (("validation_batch",), history.validation_batch),
        "validation_loss": (("validation_batch", "member", "term"), validation),
        "trainables_batch": (("trainables_batch",), history.trainables_batch),
    }
    leaves = jax.tree.leaves(history.model_trainables)
    for name, index in leaf_names(history.model_trainables).items():
        own_axes = [f"{name} axis {axis}" for axis in range(leaves[index].ndim - 2)]
        arrays[TRAINABLES + name] = (("trainables_batch", "member", *own_axes), leaves[index])
    return arrays, {"terms": terms}
