"""The Euclidean norm along axes of an array."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def checked_axes(name: str, axis: int | tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """The axes as numbers from 0, sorted.

    **Raises:** `ValueError` naming the constraint if an array of `ndim` axes lacks one of them, one is
    given twice, or none is given.
    """
    given = (axis,) if isinstance(axis, int) else axis
    if not all(-ndim <= one < ndim for one in given):
        raise ValueError(f"`axis` of {name} must be axes of the weights, which have {ndim}, got {axis}.")
    axes = tuple(sorted({one % ndim for one in given}))
    if len(axes) != len(given) or not axes:
        raise ValueError(f"`axis` of {name} must name different axes, at least one, got {axis}.")
    return axes


def norm_and_direction(
    weights: Float[Array, "..."], axes: tuple[int, ...]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """The norm along `axes`, which it keeps with length one, and the weights divided by it.

    The largest absolute value is divided out before squaring, so that squares neither overflow nor vanish.
    The direction of a vector of zeros is zeros.
    """
    largest = jnp.max(jnp.abs(weights), axis=axes, keepdims=True)
    scale = jnp.where(largest > 0, largest, jnp.ones_like(largest))
    scaled = weights / scale
    norm = jnp.sqrt(jnp.sum(scaled**2, axis=axes, keepdims=True))
    return scale * norm, scaled / jnp.where(norm == 0, jnp.ones_like(norm), norm)
