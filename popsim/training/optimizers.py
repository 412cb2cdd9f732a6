"""Optimizers whose learning rate can be read: optax's, with the rate injected into their state."""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from popsim.checks import check_one_number, check_positive
from popsim.per_member import PerMember, ScaledSchedule
from popsim.training.hyperparams import inject_hyperparams

ScheduleOrRate = float | PerMember | ScaledSchedule | optax.Schedule


def adam(
    learning_rate: ScheduleOrRate, *, clip_norm: float | PerMember | None = None
) -> optax.GradientTransformationExtraArgs:
    """Adam (Kingma & Ba 2015, arXiv 1412.6980), after clipping of the gradient's global norm.

    **Arguments:**

    - `learning_rate`: a number, or an optax schedule; `PerMember`, or `PerMember` times a schedule, where
        members differ.
    - `clip_norm`: the largest global norm of a member's gradient, which may be a `PerMember`; None for no
        clipping.

    **Raises:** `ValueError` if `learning_rate` or `clip_norm` is no number, nor a schedule, or not positive.
    """
    return _clipped(optax.adam, learning_rate, clip_norm)


def sgd(
    learning_rate: ScheduleOrRate, *, clip_norm: float | PerMember | None = None
) -> optax.GradientTransformationExtraArgs:
    """Plain stochastic gradient descent; arguments and errors as for `adam`."""
    return _clipped(optax.sgd, learning_rate, clip_norm)


def _clipped(
    optimizer: Callable[..., optax.GradientTransformation],
    learning_rate: ScheduleOrRate,
    clip_norm: float | PerMember | None,
) -> optax.GradientTransformationExtraArgs:
    if isinstance(learning_rate, ScaledSchedule):
        check_positive("learning_rate", learning_rate.scale)
    elif not callable(learning_rate):
        check_one_number("learning_rate", learning_rate)
        check_positive("learning_rate", learning_rate)
    injected = inject_hyperparams(optimizer)(learning_rate=learning_rate)
    if clip_norm is None:
        return optax.chain(injected)
    check_one_number("clip_norm", clip_norm)
    check_positive("clip_norm", clip_norm)
    return optax.chain(_clip(clip_norm), injected)


def _clip(clip_norm: float | PerMember) -> optax.GradientTransformation:
    if isinstance(clip_norm, PerMember):
        return inject_hyperparams(optax.clip_by_global_norm)(max_norm=clip_norm)
    return optax.clip_by_global_norm(clip_norm)


def learning_rate_of(opt_state: PyTree) -> Float[Array, "*member"]:
    """The learning rate of the last update, where the optimizer keeps it in its state; else NaN."""
    rates = [
        value
        for path, value in optax.tree_utils.tree_get_all_with_path(opt_state, "learning_rate")
        if hasattr(value, "dtype") and not any(getattr(p, "name", "") == "hyperparams_states" for p in path)
    ]
    return jnp.asarray(rates[0], jnp.result_type(float)) if rates else jnp.asarray(jnp.nan)
