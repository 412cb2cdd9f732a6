"""Connections that are not there."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from popsim.training.constraints.abstract import AbstractConstraint


class SparsityMask(AbstractConstraint):
    """w = 0 where the mask is False, exactly; all else stays as it is.

    **Arguments:**

    - `where`: picks the arrays, see `AbstractConstraint`.
    - `mask`: booleans in the shape of the weights, True where there is a connection.

    **Raises:** `ValueError` if `mask` does not hold booleans; when called, if the weights are of another
    shape.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    mask: Bool[Array, "..."] = eqx.field(converter=jnp.asarray)

    def __check_init__(self):
        if self.mask.dtype != bool:
            raise ValueError(f"`mask` of SparsityMask must hold booleans, got {self.mask.dtype}.")

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        if weights.shape != self.mask.shape:
            raise ValueError(
                f"`mask` of SparsityMask must have the shape of the weights {weights.shape}, "
                f"got {self.mask.shape}."
            )
        return jnp.where(self.mask, weights, 0)
