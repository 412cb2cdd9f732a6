"""One step of the optimizer."""

import dataclasses

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float, PyTree

from popsim.per_member import without_member_axes
from popsim.training.train_state import TrainState


def optimizer_step(
    state: TrainState, gradients: PyTree, loss: Float[Array, ""], trained: PyTree[bool] | None = None
) -> TrainState:
    """The state with the parameters and the optimizer's state after one step of the optimizer.

    **Arguments:**

    - `state`: the state before.
    - `gradients`: of the structure of `state.params`.
    - `loss`: for optimizers that ask for it.
    - `trained`: which parameters are trained now; the others, whose gradients must be zero, keep their
        values and what the optimizer holds for them. None for all.
    """
    optimizer = optax.with_extra_args_support(state.optimizer_def)
    with jax.numpy_dtype_promotion("standard"):  # optax needs it, also where the user has set "strict"
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params, value=loss)
    params = optax.apply_updates(state.params, updates)
    if trained is not None:
        params = eqx.combine(eqx.filter(params, trained), state.params)
        opt_state = _held_where_idle(optimizer, trained, opt_state, state.opt_state)
    return dataclasses.replace(state, params=params, opt_state=opt_state)


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
