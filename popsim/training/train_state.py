"""All that training needs to continue."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from popsim.training.trainables import select_trainables


def initial_opt_state(optimizer_def: optax.GradientTransformation, params: PyTree) -> PyTree:
    """The optimizer's state before the first step; optax promotes dtypes, also where the user forbids it."""
    with jax.numpy_dtype_promotion("standard"):
        return optimizer_def.init(params)


class TrainState(eqx.Module):
    """The state of training before one step. Immutable: a train step returns the next one.

    - `step`: how many steps have been made.
    - `root_rng`: the key of the whole training; the key of a step is `fold_in(root_rng, step)`.
    - `params`: the trainable arrays, in the structure of the model, None elsewhere.
    - `model_without_params`: all else of the model.
    - `opt_state`: the state of the optimizer.
    - `loss_fn_state`: what the loss function carries from step to step.
    - `optimizer_def`: the optimizer.
    """

    step: Int[Array, ""]
    root_rng: Key[Array, ""]
    params: PyTree
    model_without_params: PyTree
    opt_state: PyTree
    loss_fn_state: PyTree
    optimizer_def: optax.GradientTransformation = eqx.field(static=True)

    @property
    def model(self) -> Any:
        """The whole model."""
        return eqx.combine(self.params, self.model_without_params)

    @classmethod
    def initial_state(
        cls,
        model: PyTree,
        optimizer_def: optax.GradientTransformation,
        root_rng: Key[Array, ""],
        loss_fn_state: PyTree = None,
        *,
        where_train: Callable[[Any], Any] | None = None,
    ) -> "TrainState":
        """The state before the first step.

        **Arguments:**

        - `model`: the model.
        - `optimizer_def`: an optax optimizer.
        - `root_rng`: the key of the training.
        - `loss_fn_state`: what the loss function carries, at the start.
        - `where_train`: picks what is trained, see `select_trainables`; None for the whole model.

        **Raises:** `ValueError` if nothing is trained.
        """
        params, rest = select_trainables(model, where_train)
        return cls(
            step=jnp.asarray(0),
            root_rng=root_rng,
            params=params,
            model_without_params=rest,
            opt_state=initial_opt_state(optimizer_def, params),
            loss_fn_state=loss_fn_state,
            optimizer_def=optimizer_def,
        )
