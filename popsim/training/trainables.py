"""Which arrays of a model are trained."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree


def select_trainables(
    model: PyTree, where_train: Callable[[Any], Any] | None = None
) -> tuple[PyTree, PyTree]:
    """Part a model into the arrays that are trained and all else.

    **Arguments:**

    - `model`: a model, or an ensemble.
    - `where_train`: picks from the model the parts that are trained, such as
        `lambda model: model.network` or `lambda m: (m.network.cell.weight_hh, m.network.readout)`. What is
        no floating-point array within these parts is not trained. None picks the whole model.

    **Returns:** the trainable arrays, and the rest: both of the structure of `model`, with None where the
    other one has the leaf; `equinox.combine` puts them together.

    **Raises:** `ValueError` if `where_train` picks something that is no part of the model, or no
    floating-point array.
    """
    may_be_trained = jax.tree.map(eqx.is_inexact_array, model)
    if where_train is None:
        selected = may_be_trained
    else:
        nothing = jax.tree.map(lambda _: False, model)
        try:
            selected = eqx.tree_at(where_train, nothing, replace=where_train(may_be_trained))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"`where_train` must pick parts of the {type(model).__name__}, got: {error}"
            ) from error
    if not any(jax.tree.leaves(selected)):
        raise ValueError("`where_train` must pick at least one floating-point array, got none.")
    return eqx.partition(model, selected)
