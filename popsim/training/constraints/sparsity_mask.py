"""Connections that are not there."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from popsim.per_member import PerMember
from popsim.training.constraints.abstract import AbstractConstraint


def _as_mask(value: Any) -> Array | PerMember:
    return value if isinstance(value, PerMember) else jnp.asarray(value)


class SparsityMask(AbstractConstraint):
    """w = 0 where the mask is False, exactly; all else stays as it is.

    **Arguments:**

    - `where`: picks the arrays, see `AbstractConstraint`.
    - `mask`: booleans in the shape of the weights, True where there is a connection; may be a `PerMember`.

    **Raises:** `ValueError` if `mask` does not hold booleans; when called, if the weights are of another
    shape.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    mask: Bool[Array, "..."] | PerMember = eqx.field(converter=_as_mask)

    def __check_init__(self):
        values = self.mask.values if isinstance(self.mask, PerMember) else self.mask
        if values.dtype != bool:
            raise ValueError(f"`mask` of SparsityMask must hold booleans, got {values.dtype}.")

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        mask = self.of_one_member("mask")
        if weights.shape != mask.shape:
            raise ValueError(
                f"`mask` of SparsityMask must have the shape of the weights {weights.shape}, "
                f"got {mask.shape}."
            )
        return jnp.where(mask, weights, 0)
