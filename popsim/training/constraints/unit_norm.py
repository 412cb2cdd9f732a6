"""Weight vectors of length one."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from popsim.training.constraints.abstract import AbstractConstraint
from popsim.training.constraints.vector_norm import checked_axes, norm_and_direction


class UnitNorm(AbstractConstraint):
    """|w| = 1 for each vector w along `axis`: w / |w|, to rounding.

    A vector of zeros has no direction: it stays zero.

    **Arguments:**

    - `where`: picks the arrays, see `AbstractConstraint`.
    - `axis`: the axis, or axes, along which the norm is taken. For weights [post, pre], -1 is the weights
        onto each unit, 0 the weights from each unit.

    **Raises:** `ValueError` when called, if the weights lack `axis`.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    axis: int | tuple[int, ...] = eqx.field(static=True, default=-1)

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        axes = checked_axes("UnitNorm", self.axis, weights.ndim)
        return norm_and_direction(weights, axes)[1]
