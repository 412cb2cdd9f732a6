"""One step of the optimizer."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float, PyTree

from popsim.per_member import without_member_axes
from popsim.training.train_state import TrainState

LossOfParams = Callable[[PyTree], Float[Array, ""]]


def optimizer_step(
    state: TrainState,
    gradients: PyTree,
    loss: Float[Array, ""],
    loss_of: LossOfParams,
    trained: PyTree[bool] | None = None,
) -> TrainState:
    """The state with the parameters and the optimizer's state after one step of the optimizer.

    **Arguments:**

    - `state`: the state before.
    - `gradients`: of the structure of `state.params`.
    - `loss`: for optimizers that ask for it (`optax.polyak_sgd`).
    - `loss_of`: from parameters to the loss of the same trials, for optimizers that ask for that, or for
        its derivatives (`optax.lbfgs`; `optax.contrib.sam` in opaque mode; `optax.contrib.sophia`).
    - `trained`: which parameters are trained now; the others, whose gradients must be zero, keep their
        values and what the optimizer holds for them. None for all.

    **Raises:** `ValueError` if the optimizer returns an update of another shape than the parameter's.
    """
    optimizer = optax.with_extra_args_support(state.optimizer_def)
    offered = {
        "value": loss,
        "grad": gradients,
        "value_fn": _beside_others(loss_of),
        "grad_fn": lambda params, _: jax.grad(loss_of)(params),
        "obj_fn": loss_of,
    }
    with jax.numpy_dtype_promotion("standard"):  # optax needs it, also where the user has set "strict"
        updates, opt_state = optimizer.update(
            gradients, state.opt_state, state.params, **_taken_by(optimizer.update, offered)
        )
    _check_shapes(updates, state.params)
    params = optax.apply_updates(state.params, updates)
    if trained is not None:
        params = eqx.combine(eqx.filter(params, trained), state.params)
        opt_state = _held_where_idle(optimizer, trained, opt_state, state.opt_state)
    return dataclasses.replace(state, params=params, opt_state=opt_state)


def _beside_others(loss_of: LossOfParams) -> Callable[..., Float[Array, ""]]:
    """The loss for a line search, which refuses what is meant for others unless its function names it."""

    def value_fn(params, *, grad_fn=None, obj_fn=None):
        return loss_of(params)

    return value_fn


def _taken_by(update: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """What an optimizer takes of what it is offered: most take all, `optax.contrib.sam` what it names."""
    taken = inspect.signature(update).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        return offered
    return {name: value for name, value in offered.items() if name in taken}


def _check_shapes(updates: PyTree[Array], params: PyTree[Array]) -> None:
    for update, param in zip(jax.tree.leaves(updates), jax.tree.leaves(params), strict=True):
        if update.shape != param.shape:
            raise ValueError(
                f"an update of shape {update.shape} was returned for a parameter of shape {param.shape}. "
                "(optax.contrib.dpsgd, which needs the gradients of single trials, cannot be used.)"
            )


def _held_where_idle(
    optimizer: optax.GradientTransformation, trained: PyTree[bool], new: PyTree, old: PyTree
) -> PyTree:
    """The new state of the optimizer, but for what it holds of parameters that are not trained."""
    with jax.numpy_dtype_promotion("standard"):
        is_new = optax.tree_utils.tree_map_params(
            lambda params: without_member_axes(optimizer.init(params)),
            lambda _, is_trained: is_trained,
            new,
            trained,
            transform_non_params=lambda _: True,
        )
    return jax.tree.map(lambda own, updated, held: updated if own else held, is_new, new, old)
