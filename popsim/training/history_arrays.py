"""A history as named arrays with named axes: how it lies on disk."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from popsim.loss import LossValues
from popsim.store import leaf_names
from popsim.training.history import ValidationRecord
from popsim.training.history_rows import BATCH, TRAINABLES, TRIALS, VALIDATION
from popsim.training.member_step import BatchRecord

NamedRows = Mapping[str, tuple[tuple[str, ...], np.ndarray]]
PREFIXES = {TRAINABLES: "trainables.", TRIALS: "trials."}
METRIC = "metric."


def named_rows(axis: str, rows: PyTree, members_of: Callable[[str], tuple[str, ...]]) -> NamedRows:
    """Rows of a history by name, each with the names of the axes of one row.

    **Arguments:**

    - `axis`: what the rows are about, see `AbstractHistoryRows`.
    - `rows`: arrays that lead with the row.
    - `members_of`: for an axis ("member",) if its rows have a member axis, else ().
    """
    member = members_of(axis)
    if axis == BATCH:
        named = {"loss": _by_term(rows.loss.terms, member), "learning_rate": (member, rows.learning_rate)}
        if rows.loss_weights is not None:
            named["loss_weights"] = _by_term(rows.loss_weights, member)
        return named
    if axis == VALIDATION:
        metrics = {METRIC + name: values for name, values in rows.metrics.items()}
        own = {name: _with_own_axes(name, values, member) for name, values in metrics.items()}
        return {"validation_loss": _by_term(rows.loss.terms, member), **own}
    leaves = jax.tree.leaves(rows)
    names = leaf_names(rows)
    return {
        PREFIXES[axis] + name: _with_own_axes(name, leaves[index], member) for name, index in names.items()
    }


def rows_of_names(axis: str, arrays: Mapping[str, Any], terms: list[str], like: PyTree) -> PyTree:
    """The inverse of `named_rows`.

    **Arguments:**

    - `axis`: what the rows are about.
    - `arrays`: by name the arrays, which may be lazy.
    - `terms`: the names of the terms of the loss.
    - `like`: for trainables and trials a PyTree of the structure of a row.
    """
    if axis == BATCH:
        weights = _of_terms(arrays["loss_weights"], terms) if "loss_weights" in arrays else None
        losses = LossValues(_of_terms(arrays["loss"], terms))
        return BatchRecord(losses, np.asarray(arrays["learning_rate"]), weights)
    if axis == VALIDATION:
        names = [name for name in arrays if name.startswith(METRIC)]
        metrics = {name.removeprefix(METRIC): np.asarray(arrays[name]) for name in names}
        return ValidationRecord(LossValues(_of_terms(arrays["validation_loss"], terms)), metrics)
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


def _with_own_axes(
    name: str, rows: np.ndarray, member: tuple[str, ...]
) -> tuple[tuple[str, ...], np.ndarray]:
    own = tuple(f"{name} axis {axis}" for axis in range(rows.ndim - 1 - len(member)))
    return (*member, *own), rows
