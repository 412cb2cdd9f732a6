"""Shapes of the tables of muscle paths: muscles x coordinates."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from popsim.checks import as_float_array, check_finite


def as_lengths(name: str, value: Any) -> Array:
    """`value` as one finite number for each muscle, or `ValueError`."""
    lengths = as_float_array(value)
    if lengths.ndim != 1:
        raise ValueError(f"`{name}` must be one number for each muscle, got shape {lengths.shape}.")
    check_finite(name, value)
    return lengths


def as_table(name: str, value: Any, n_muscles: int) -> Array:
    """`value` as finite numbers of shape (muscles, coordinates), or `ValueError`."""
    table = as_float_array(value)
    if table.ndim != 2 or table.shape[0] != n_muscles:
        raise ValueError(
            f"`{name}` must have shape (muscles, coordinates), here ({n_muscles}, ...), got {table.shape}."
        )
    check_finite(name, value)
    return table


def as_table_like(name: str, value: Any, like: Array) -> Array:
    """`value` as finite numbers of the shape of the table `like`, or `ValueError`.

    What has no axis of muscles, or of coordinates, is the same for all of them.
    """
    table = as_float_array(value)
    if table.shape not in ((), like.shape[1:], like.shape):
        raise ValueError(f"`{name}` must have shape {like.shape} or {like.shape[1:]}, got {table.shape}.")
    check_finite(name, value)
    return jnp.broadcast_to(table, like.shape)


def check_configuration(configuration: Array, n_coordinates: int) -> None:
    """Raise `ValueError` if a body has other coordinates than the muscles run over."""
    if configuration.shape[-1] != n_coordinates:
        raise ValueError(
            f"`path` must run over a body of {configuration.shape[-1]} coordinates, "
            f"got one over {n_coordinates}."
        )
