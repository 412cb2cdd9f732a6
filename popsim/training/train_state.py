"""All that training needs to continue."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from popsim.ensemble import n_members
from popsim.randomness import as_key
from popsim.training.hyperparams import init_optimizer, init_optimizer_of_members
from popsim.training.trainables import select_trainables

SHARED = ("step", "root_rng")  # what all members of an ensemble have in common
OWN = ("params", "model_without_params", "opt_state", "loss_fn_state")  # what each has of its own


class TrainState(eqx.Module):
    """The state of training before one step. Immutable: a train step returns the next one.

    - `step`: how many steps have been made.
    - `root_rng`: the key of the whole training; the key of a step is `fold_in(root_rng, step)`.
    - `params`: the arrays that are trained, in the structure of the model, None elsewhere.
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
    def is_param(self) -> PyTree[bool]:
        """For each leaf of the model whether it is trained."""
        return jax.tree.map(lambda leaf: leaf is not None, self.params, is_leaf=lambda leaf: leaf is None)

    @property
    def model(self) -> Any:
        """The whole model."""
        return eqx.combine(self.params, self.model_without_params)

    @classmethod
    def initial_state(
        cls,
        model: PyTree,
        optimizer_def: optax.GradientTransformation,
        root_rng: PRNGKeyArray,
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
        - `where_train`: picks what is trained, see `select_trainables`; None for all parameters.

        **Raises:** `ValueError` if nothing is trained, or a hyperparameter of the optimizer differs between
        members.
        """
        root_rng = as_key(root_rng, "root_rng")
        params, rest = select_trainables(model, where_train)
        opt_state = init_optimizer(optimizer_def, params)
        return cls(jnp.asarray(0), root_rng, params, rest, opt_state, loss_fn_state, optimizer_def)

    @classmethod
    def initial_ensemble(
        cls,
        ensemble: PyTree,
        optimizer_def: optax.GradientTransformation,
        root_rng: PRNGKeyArray,
        *,
        where_train: Callable[[Any], Any] | None = None,
    ) -> "TrainState":
        """`initial_state` of an ensemble: each member has an optimizer state of its own.

        `step` and `root_rng` are those of all members.

        **Raises:** `ValueError` as `initial_state`, or if a hyperparameter of the optimizer that differs
        between members has not a value for each.
        """
        root_rng = as_key(root_rng, "root_rng")
        params, rest = select_trainables(ensemble, where_train)
        opt_state = init_optimizer_of_members(optimizer_def, params, n_members(ensemble))
        return cls(jnp.asarray(0), root_rng, params, rest, opt_state, None, optimizer_def)


def parts(state: TrainState, names: tuple[str, ...]) -> dict[str, PyTree]:
    """The named parts of a state."""
    return {name: getattr(state, name) for name in names}
