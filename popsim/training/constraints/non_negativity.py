"""Weights that are not negative."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.training.constraints.abstract import AbstractConstraint


class NonNegativity(AbstractConstraint):
    """w >= 0; what is negative becomes 0. It holds exactly; NaN stays NaN.

    **Arguments:**

    - `where`: picks the arrays, see `AbstractConstraint`.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(weights < 0, 0, weights)
