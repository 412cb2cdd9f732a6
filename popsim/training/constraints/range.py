"""Weights within limits."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim.checks import as_float_array, is_traced
from popsim.training.constraints.abstract import AbstractConstraint


class Range(AbstractConstraint):
    """low <= w <= high; what is outside goes to the nearer limit.

    It holds exactly, for limits rounded to the floating-point type of the weights. NaN stays NaN.

    **Arguments:**

    - `where`: picks the arrays, see `AbstractConstraint`.
    - `low`, `high`: the limits, numbers or arrays that broadcast to the weights; may be infinite.

    **Raises:** `ValueError` if a limit is NaN or `low` exceeds `high`; when called, if the limits do not
    broadcast to the weights.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    low: Float[Array, "*low"] = eqx.field(converter=as_float_array)
    high: Float[Array, "*high"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        if is_traced(self.low) or is_traced(self.high):
            return
        if not np.all(np.asarray(self.low) <= np.asarray(self.high)):
            raise ValueError(f"`low` of Range must not exceed `high`, got {self.low} and {self.high}.")

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        for name, limit in (("low", self.low), ("high", self.high)):
            if not _broadcasts_to(limit.shape, weights.shape):
                raise ValueError(
                    f"`{name}` of Range must broadcast to the weights of shape {weights.shape}, "
                    f"got shape {limit.shape}."
                )
        return jnp.clip(weights, self.low.astype(weights.dtype), self.high.astype(weights.dtype))


def _broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False
