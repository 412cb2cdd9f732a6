"""All that training needs to continue."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PyTree

from popsim.training.trainables import select_trainables


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
        with jax.numpy_dtype_promotion("standard"):  # optax needs it, also where the user has set "strict"
            opt_state = optimizer_def.init(params)
        return cls(jnp.asarray(0), root_rng, params, rest, opt_state, loss_fn_state, optimizer_def)

    @classmethod
    def initial_ensemble(
        cls,
        ensemble: PyTree,
        optimizer_def: optax.GradientTransformation,
        root_rng: Key[Array, ""],
        *,
        where_train: Callable[[Any], Any] | None = None,
    ) -> "TrainState":
        """`initial_state` of an ensemble: each member has an optimizer state of its own.

        `step` and `root_rng` are those of all members.
        """
        state = cls.initial_state(ensemble, optimizer_def, root_rng, where_train=where_train)
        with jax.numpy_dtype_promotion("standard"):
            opt_state = jax.vmap(optimizer_def.init)(state.params)
        return dataclasses.replace(state, opt_state=opt_state)
