"""Weight vectors of limited length."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.checks import as_float_array, check_positive
from popsim.per_member import PerMember
from popsim.training.constraints.abstract import AbstractConstraint
from popsim.training.constraints.vector_norm import checked_axes, norm_and_direction


class MaxNorm(AbstractConstraint):
    """|w| <= max_norm for each vector w along `axis`: a longer one is shortened to `max_norm`.

    Max-norm regularisation (Srivastava et al. 2014, J Mach Learn Res 15:1929, section 5.1; cited from
    memory). It holds to rounding; a vector within the limit stays as it is, bit for bit.

    **Arguments:**

    - `where`: picks the arrays, see `AbstractConstraint`.
    - `max_norm`: the limit, which may be a `PerMember`.
    - `axis`: the axis, or axes, along which the norm is taken. For weights [post, pre], -1 is the weights
        onto each unit, 0 the weights from each unit.

    **Raises:** `ValueError` if `max_norm` is not positive; when called, if the weights lack `axis`.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    max_norm: Float[Array, ""] | PerMember = eqx.field(converter=as_float_array)
    axis: int | tuple[int, ...] = eqx.field(static=True, default=-1)

    def __check_init__(self):
        check_positive("max_norm", self.max_norm)

    def project(self, weights: Float[Array, "..."]) -> Float[Array, "..."]:
        axes = checked_axes("MaxNorm", self.axis, weights.ndim)
        norm, direction = norm_and_direction(weights, axes)
        limit = self.of_one_member("max_norm").astype(weights.dtype)
        return jnp.where(norm > limit, limit * direction, weights)
