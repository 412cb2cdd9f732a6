"""Optimizer states that come from elsewhere, or are made anew."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from popsim.training.member_carry import NEVER
from popsim.training.train_state import TrainState


def checked_opt_state(opt_state: PyTree, fresh: PyTree) -> PyTree:
    """Raise `ValueError` unless an optimizer state is of the structure and shapes of a fresh one."""
    given, expected = jax.tree.structure(opt_state), jax.tree.structure(fresh)
    if given != expected:
        raise ValueError(f"`opt_state` must be of this optimizer and model, {expected}, got {given}.")
    pairs = zip(jax.tree.leaves_with_path(opt_state), jax.tree.leaves(fresh), strict=True)
    for (path, leaf), own in pairs:
        if eqx.is_array(own) and (np.shape(leaf), jnp.asarray(leaf).dtype) != (own.shape, own.dtype):
            raise ValueError(
                f"`opt_state{jax.tree_util.keystr(path)}` must be {own.dtype} of shape {own.shape}, "
                f"got {jnp.asarray(leaf).dtype} of shape {np.shape(leaf)}."
            )
    return jax.tree.map(jnp.asarray, opt_state)


def with_fresh_optimizer(state: TrainState, fresh: PyTree) -> TrainState:
    """The state with the optimizer's state made anew; a frozen member keeps its own."""
    frozen = state.loss_fn_state.frozen_from != NEVER

    def renewed(new: Any, old: Any) -> Any:
        if not eqx.is_array(new):
            return new
        is_frozen = frozen.reshape(frozen.shape + (1,) * (new.ndim - frozen.ndim))
        return jnp.where(is_frozen, old, new)

    return dataclasses.replace(state, opt_state=jax.tree.map(renewed, fresh, state.opt_state))
