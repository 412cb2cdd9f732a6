"""Optimizers whose learning rate can be read: optax's, with the rate injected into their state."""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from popsim.checks import check_positive

ScheduleOrRate = float | optax.Schedule


def adam(
    learning_rate: ScheduleOrRate, *, clip_norm: float | None = None
) -> optax.GradientTransformationExtraArgs:
    """Adam (Kingma & Ba 2015, arXiv 1412.6980), after clipping of the gradient's global norm.

    **Arguments:**

    - `learning_rate`: a number, or an optax schedule.
    - `clip_norm`: the largest global norm of a member's gradient; None for no clipping.

    **Raises:** `ValueError` if `learning_rate` or `clip_norm` is a number that is not positive.
    """
    return _clipped(optax.adam, learning_rate, clip_norm)


def sgd(
    learning_rate: ScheduleOrRate, *, clip_norm: float | None = None
) -> optax.GradientTransformationExtraArgs:
    """Plain stochastic gradient descent; arguments and errors as for `adam`."""
    return _clipped(optax.sgd, learning_rate, clip_norm)


def _clipped(
    optimizer: Callable[..., optax.GradientTransformation],
    learning_rate: ScheduleOrRate,
    clip_norm: float | None,
) -> optax.GradientTransformationExtraArgs:
    if isinstance(learning_rate, (int, float)):
        check_positive("learning_rate", learning_rate)
    injected = optax.inject_hyperparams(optimizer)(learning_rate=learning_rate)
    if clip_norm is None:
        return optax.chain(injected)
    check_positive("clip_norm", clip_norm)
    return optax.chain(optax.clip_by_global_norm(clip_norm), injected)


def learning_rate_of(opt_state: PyTree) -> Float[Array, "*member"]:
    """The learning rate of the last update, where the optimizer keeps it in its state; else NaN."""
    rates = [
        value
        for path, value in optax.tree_utils.tree_get_all_with_path(opt_state, "learning_rate")
        if hasattr(value, "dtype") and not any(getattr(p, "name", "") == "hyperparams_states" for p in path)
    ]
    return jnp.asarray(rates[0], jnp.result_type(float)) if rates else jnp.asarray(jnp.nan)
