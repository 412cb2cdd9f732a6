"""Units without connections to themselves."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.training.constraints.abstract import AbstractConstraint


class ZeroDiagonal(AbstractConstraint):
    """W_ii = 0, exactly: no unit is connected to itself; all else stays as it is.

    Weights of shape (k n, n) are k blocks of n x n, stacked in the rows, and the diagonal of each becomes
    0: the recurrent weights of `equinox.nn.GRUCell` are three such blocks (reset, update, candidate).

    **Arguments:**

    - `where`: picks the matrices, see `AbstractConstraint`.

    **Raises:** `ValueError` when called, if the weights are not of such a shape.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        self.check_matrix(weights)
        n_rows, n_columns = weights.shape
        if n_columns == 0 or n_rows % n_columns:
            raise ValueError(
                "`where` of ZeroDiagonal must pick square matrices, or square blocks stacked in the rows, "
                f"got an array of shape {weights.shape}."
            )
        to_itself = jnp.arange(n_rows)[:, None] % n_columns == jnp.arange(n_columns)
        return jnp.where(to_itself, 0, weights)
