"""Where the points of a body are in the world."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.checks import as_float_array, check_positive
from popsim.muscles.paths.tables import check_configuration
from popsim.parameters import Constants


class AbstractPlacement(eqx.Module):
    """Tells where a point that is fixed to a segment of a body is in the world. A subclass supplies `place`.

    !!! example

        ```python
        >>> import jax.numpy as jnp, popsim
        >>> from popsim.muscles import paths
        >>> class Rail(paths.AbstractPlacement):
        ...     "Segment 0 is the world, segment 1 slides along x."
        ...     def place(self, configuration, segment, point):
        ...         return point + segment * jnp.array([configuration[0], 0.0])
        >>> muscle = [(0, (0.0, 0.0)), (1, (0.5, 0.0))]
        >>> length = paths.StraightPath(Rail(), [muscle]).length(jnp.array([0.25]))
        >>> bool(jnp.allclose(length, 0.75))
        True

        ```
    """

    constants: ClassVar[Constants] = "all"

    @abc.abstractmethod
    def place(
        self, configuration: Float[Array, " coordinates"], segment: int, point: Float[Array, " space"]
    ) -> Float[Array, " space"]:
        """The position in the world, in m.

        **Arguments:**

        - `configuration`: the coordinates of the body.
        - `segment`: which segment the point is fixed to; 0 is the world itself.
        - `point`: its position in the coordinates of the segment, in m.
        """


class PointMassPlacement(AbstractPlacement):
    """Segment 0 is the world, segment 1 a point mass, at `configuration`, that does not turn."""

    def place(
        self, configuration: Float[Array, " coordinates"], segment: int, point: Float[Array, " space"]
    ) -> Float[Array, " space"]:
        check_segment(segment, 1)
        return point + configuration if segment == 1 else point


class ChainPlacement(AbstractPlacement):
    """A planar chain of segments on hinges, the first in the world's origin.

    Segment 0 is the world. In the coordinates of segment k the proximal joint is the origin, and the distal
    one (length, 0). An angle is relative to the segment before.

    **Arguments:**

    - `length`: of each segment, in m. If the lengths of an arm are trained, these are other parameters.

    **Raises:** `ValueError` if a length is not positive, or there is none.
    """

    length: Float[Array, "*members segments"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_positive("length", self.length)
        if self.length.ndim != 1 or self.length.size == 0:
            raise ValueError(f"`length` must be one for each segment, got shape {self.length.shape}.")

    def place(
        self, configuration: Float[Array, " coordinates"], segment: int, point: Float[Array, " space"]
    ) -> Float[Array, " space"]:
        check_segment(segment, self.length.shape[0])
        if segment == 0:
            return point
        check_configuration(configuration, self.length.shape[0])
        direction = jnp.cumsum(configuration[:segment])
        along = jnp.stack([jnp.cos(direction), jnp.sin(direction)], axis=1)
        joint = self.length[: segment - 1] @ along[: segment - 1]
        x, y = along[-1]
        return joint + point[0] * jnp.stack([x, y]) + point[1] * jnp.stack([-y, x])


def check_segment(segment: int, last: int) -> None:
    """Raise `ValueError` unless `segment` is one of 0 to `last`."""
    if not 0 <= segment <= last:
        raise ValueError(f"`segment` must be from 0, the world, to {last}, got {segment}.")
