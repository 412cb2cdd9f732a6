"""Weights within limits."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim.checks import as_float_array, is_traced
from popsim.per_member import PerMember, check_n_members, of_member, per_member_nodes
from popsim.training.constraints.abstract import AbstractConstraint


class Range(AbstractConstraint):
    """low <= w <= high; what is outside goes to the nearer limit.

    It holds exactly, for limits rounded to the floating-point type of the weights. NaN stays NaN.

    **Arguments:**

    - `where`: picks the arrays, see `AbstractConstraint`.
    - `low`, `high`: the limits, numbers or arrays that broadcast to the weights; may be infinite, and may
        be `PerMember`.

    **Raises:** `ValueError` if a limit is NaN, `low` exceeds `high`, or both are of another number of
    members; when called, if the limits do not broadcast to the weights.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    low: Float[Array, "*low"] | PerMember = eqx.field(converter=as_float_array)
    high: Float[Array, "*high"] | PerMember = eqx.field(converter=as_float_array)

    def __check_init__(self):
        if any(is_traced(leaf) for leaf in jax.tree.leaves(self)):
            return
        n_members = max((node.values.shape[0] for node in per_member_nodes(self).values()), default=1)
        check_n_members(self, n_members, "Range")
        for index in range(n_members):
            low, high = of_member((self.low, self.high), index)
            if not np.all(np.asarray(low) <= np.asarray(high)):
                raise ValueError(f"`low` of Range must not exceed `high`, got {low} and {high}.")

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        low, high = self.of_one_member("low"), self.of_one_member("high")
        for name, limit in (("low", low), ("high", high)):
            if not _broadcasts_to(limit.shape, weights.shape):
                raise ValueError(
                    f"`{name}` of Range must broadcast to the weights of shape {weights.shape}, "
                    f"got shape {limit.shape}."
                )
        return jnp.clip(weights, low.astype(weights.dtype), high.astype(weights.dtype))


def _broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False
