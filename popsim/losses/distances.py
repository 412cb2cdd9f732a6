"""How far apart two points count as, and how far weights are from zero."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.checks import as_float_array, check_positive


class AbstractDistance(eqx.Module):
    """From the difference of two points to a number, zero where they are one. A subclass supplies `__call__`.

    Gradients must be finite everywhere, also where the points are one.

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> class LargestCoordinate(popsim.losses.AbstractDistance):
        ...     def __call__(self, difference):
        ...         return jnp.max(jnp.abs(difference), axis=-1)
        >>> term = popsim.losses.PositionError(distance=LargestCoordinate())
        >>> float(term.distance(jnp.array([3.0, -4.0])))
        4.0

        ```
    """

    @abc.abstractmethod
    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        """How far apart, by the difference of the coordinates on the last axis."""


class SquaredDistance(AbstractDistance):
    """|d|², the sum of the squared coordinates, in the unit of d squared."""

    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        return jnp.sum(difference**2, axis=-1)


class EuclideanDistance(AbstractDistance):
    """|d|, the length of d, in its unit. Its gradient at d = 0, where it has none, is taken as zero."""

    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        return _length(difference)


class L1Distance(AbstractDistance):
    """Σ |d_i|, in the unit of d. Where a coordinate is zero, its gradient is taken as zero."""

    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        return jnp.sum(difference * jnp.sign(difference), axis=-1)  # of abs, JAX takes it as one


class HuberDistance(AbstractDistance):
    """|d|² / 2 up to `delta`, and from there on straight: `delta` (|d| - `delta` / 2).

    So far points pull no harder than those at `delta` (Huber 1964, Ann Math Stat 35:73-101, cited from
    memory, here of the length of d: all directions count alike). In the unit of d squared.

    **Arguments:**

    - `delta`: in the unit of d.

    **Raises:** `ValueError` if `delta` is not positive.
    """

    delta: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_positive("delta", self.delta)

    def __call__(self, difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
        length = _length(difference)
        bent = jnp.minimum(length, self.delta)
        return bent * (length - bent / 2)


def _length(difference: Float[Array, "*axes coordinates"]) -> Float[Array, "*axes"]:
    squared = jnp.sum(difference**2, axis=-1)
    is_zero = squared == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, squared)))
