"""Which part of a model is trained from which batch on."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from popsim.training.trainables import select_trainables

WhereTrain = Callable[[Any], Any] | Mapping[int, Callable[[Any], Any]]


@dataclasses.dataclass(frozen=True)
class Phase:
    """A stretch of training batches in which the same part of the model is trained.

    - `first_batch`: its first batch.
    - `trained`: which of all parameters are trained in it, in their structure; None for all.
    """

    first_batch: int
    trained: PyTree[bool] | None


@dataclasses.dataclass(frozen=True)
class Phases:
    """The phases of a training.

    - `where_train`: picks what is trained in any phase.
    - `phases`: in the order of their first batches.
    """

    where_train: Callable[[Any], Any]
    phases: tuple[Phase, ...]

    def check_within(self, n_batches: int) -> None:
        """Raise `ValueError` if a phase begins after the last batch."""
        for phase in self.phases:
            if phase.first_batch >= n_batches:
                raise ValueError(
                    f"`where_train` must map batch numbers from 0 to {n_batches - 1}, "
                    f"got {phase.first_batch}."
                )


def training_phases(model: PyTree, where_train: WhereTrain) -> Phases:
    """The phases that `where_train` describes.

    **Arguments:**

    - `model`: the model, or ensemble.
    - `where_train`: picks what is trained, see `select_trainables`; or such a function for each batch
        from which on another part is trained.

    **Raises:** `ValueError` if a mapping has no entry for batch 0, or a key that is no batch number, or
    as `select_trainables`.
    """
    if not isinstance(where_train, Mapping):
        select_trainables(model, where_train)
        return Phases(where_train, (Phase(0, None),))
    for batch in where_train:
        if not isinstance(batch, (int, np.integer)) or isinstance(batch, bool) or batch < 0:
            raise ValueError(f"`where_train` must map batch numbers to functions, got the key {batch!r}.")
    if 0 not in where_train:
        raise ValueError(
            f"`where_train` must say what is trained from batch 0 on, got {sorted(where_train)}."
        )
    first_batches = sorted(where_train)
    selected = [select_trainables(model, where_train[batch])[0] for batch in first_batches]
    union = eqx.combine(*selected)
    is_leaf = _is_none
    masks = [
        jax.tree.map(lambda leaf, own: None if leaf is None else own is not None, union, own, is_leaf=is_leaf)
        for own in selected
    ]
    return Phases(
        _picks_leaves(union),
        tuple(
            Phase(batch, None if all(jax.tree.leaves(mask)) else mask)
            for batch, mask in zip(first_batches, masks, strict=True)
        ),
    )


def _is_none(node: Any) -> bool:
    return node is None


def _picks_leaves(selected: PyTree) -> Callable[[Any], Any]:
    """A `where_train` that picks the leaves that `selected` has."""
    indices = [i for i, leaf in enumerate(jax.tree.leaves(selected, is_leaf=_is_none)) if leaf is not None]

    def where(model: Any) -> Any:
        leaves = jax.tree.leaves(model, is_leaf=_is_none)
        return [leaves[i] for i in indices]

    return where
