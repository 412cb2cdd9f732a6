"""Members whose numbers are no longer finite: they are held at their last finite state."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from popsim.training.member_carry import NEVER
from popsim.training.train_state import OWN, TrainState, parts


class NonfiniteError(ArithmeticError):
    """A member's loss, parameters or optimizer state are not finite, and the trainer was told to raise."""


def starts_finite(opt_state: PyTree) -> PyTree[bool]:
    """Which leaves of a fresh optimizer state are finite: some optimizers start from infinity."""
    return jax.tree.map(
        lambda leaf: bool(jnp.all(jnp.isfinite(leaf))) if eqx.is_inexact_array(leaf) else False, opt_state
    )


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether all floating-point arrays of a PyTree are finite."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if eqx.is_inexact_array(leaf)]
    if not leaves:
        return jnp.asarray(True)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def freeze_nonfinite(before: TrainState, after: TrainState, is_finite: Bool[Array, ""]) -> TrainState:
    """The state after a batch, or that before it if the member is frozen or `is_finite` is False."""
    was_frozen = before.loss_fn_state.frozen_from != NEVER
    frozen = was_frozen | ~is_finite

    def held(old: Any, new: Any) -> Any:
        return jnp.where(frozen, old, new) if eqx.is_array(new) and new is not old else new

    own = jax.tree.map(held, parts(before, OWN), parts(after, OWN))
    frozen_from = jnp.where(frozen & ~was_frozen, before.step, before.loss_fn_state.frozen_from)
    own["loss_fn_state"] = eqx.tree_at(lambda carry: carry.frozen_from, own["loss_fn_state"], frozen_from)
    return dataclasses.replace(after, **own)
