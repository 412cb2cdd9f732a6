"""Muscle paths of straight segments through points fixed to a body."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.checks import as_float_array, check_finite
from popsim.muscles.paths.abstract import AbstractMusclePath
from popsim.muscles.paths.placement import AbstractPlacement


class StraightPath(AbstractMusclePath):
    """Each muscle runs straight from point to point; its length is the sum of the distances.

    Two points in one place add nothing to the length, and nothing to the gradient.

    **Arguments:**

    - `placement`: where the points of the body are.
    - `muscles`: for each muscle its points from origin to insertion, two or more, each a segment of the
        body and a position (m) in the coordinates of that segment: `[(0, (0.1, 0.0)), (1, (0.02, 0.01))]`.

    **Raises:** `ValueError` if a muscle has fewer than two points, or a point is not (segment, position).
    """

    placement: AbstractPlacement
    points: tuple[Float[Array, "*members points space"], ...]
    segments: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(self, placement: AbstractPlacement, muscles: Sequence[Sequence[tuple[int, Any]]]):
        for muscle in muscles:
            if len(muscle) < 2 or any(len(point) != 2 for point in muscle):
                raise ValueError(
                    f"`muscles` must be two points (segment, position) or more for each muscle, got {muscle}."
                )
        self.placement = placement
        self.points = tuple(_positions([position for _, position in muscle]) for muscle in muscles)
        self.segments = tuple(tuple(int(segment) for segment, _ in muscle) for muscle in muscles)

    def length(self, configuration: Float[Array, " coordinates"]) -> Float[Array, " muscles"]:
        return jnp.stack(
            [self._length(configuration, *muscle) for muscle in zip(self.segments, self.points, strict=True)]
        )

    def with_muscle(self, other: AbstractMusclePath) -> "StraightPath":
        """These muscles, and after them those of `other`, on the body of this one."""
        if not isinstance(other, StraightPath) or type(other.placement) is not type(self.placement):
            raise ValueError(f"`other` must be a straight path over the same body, got {other!r}.")
        muscles = [
            list(zip(segments, points, strict=True))
            for path in (self, other)
            for segments, points in zip(path.segments, path.points, strict=True)
        ]
        return StraightPath(self.placement, muscles)

    def _length(self, configuration: Array, segments: tuple[int, ...], points: Array) -> Array:
        places = [self.placement.place(configuration, *fixed) for fixed in zip(segments, points, strict=True)]
        steps = jnp.diff(jnp.stack(places), axis=0)
        squares = jnp.sum(steps**2, axis=1)
        apart = squares > 0  # the square root has no gradient at zero
        return jnp.sum(jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1.0)), 0.0))


def _positions(positions: list[Any]) -> Array:
    arrays = [as_float_array(position) for position in positions]
    if any(array.ndim != 1 or array.shape != arrays[0].shape for array in arrays):
        shapes = [array.shape for array in arrays]
        raise ValueError(f"`muscles` must have positions with the same axes at all points, got {shapes}.")
    for array in arrays:
        check_finite("muscles", array)
    return jnp.stack(arrays)
