"""Muscle paths: lengths and moment arms as functions of the configuration."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim._shared.checks import as_float_array, check_finite, check_positive, warn_of_unit
from popsim.hand import Coordinates, Position
from popsim.muscles.activation import Muscles, join
from popsim.parameters import Constants

__all__ = [
    "AbstractMusclePath",
    "path_velocity",
    "moment_arms",
    "generalised_force",
    "ConstantMomentArmPath",
    "PolynomialPath",
    "AbstractPlacement",
    "PointMassPlacement",
    "ChainPlacement",
    "StraightPath",
]


class AbstractMusclePath(eqx.Module):
    """The paths of muscles over a skeleton. A subclass supplies `length` and `with_muscle`.

    Velocities, moment arms and generalised forces follow from the length: `path_velocity`, `moment_arms`,
    `generalised_force`. A subclass with moment arms in closed form, which are faster, overrides `arms`.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp, popsim
        >>> from popsim.muscles import paths
        >>> class Spokes(paths.AbstractMusclePath):
        ...     "Straight from anchors (muscles x 2) in the world to a point that moves."
        ...     anchors: jnp.ndarray
        ...     def length(self, configuration):
        ...         return jnp.linalg.norm(configuration - self.anchors, axis=1)
        ...     def with_muscle(self, other):
        ...         return Spokes(jnp.concatenate([self.anchors, other.anchors]))
        >>> path = Spokes(jnp.array([[1.0, 0.0], [-1.0, 0.0]])).with_muscle(Spokes(jnp.array([[0.0, 1.0]])))
        >>> force = paths.generalised_force(path, jnp.zeros(2), jnp.array([5.0, 2.0, 1.0]))
        >>> bool(jnp.allclose(force, jnp.array([3.0, 1.0])))
        True

        ```
    """

    constants: ClassVar[Constants] = "all"

    @abc.abstractmethod
    def length(self, configuration: Coordinates) -> Muscles:
        """Return the length of each musculotendon, in m.

        **Arguments:**

        - `configuration`: the coordinates of the skeleton: joint angles in rad, or a position in m.
        """

    @abc.abstractmethod
    def with_muscle(self, other: "AbstractMusclePath") -> "AbstractMusclePath":
        """Return the paths of these muscles followed by those of `other`."""

    def arms(self, configuration: Coordinates) -> Float[Array, "muscles coordinates"]:
        """Return d length / d configuration, by default by differentiation; see `moment_arms`."""
        return jax.jacfwd(self.length)(configuration)

    def world_points(self, configuration: Coordinates) -> tuple[Float[Array, "_ space"], ...] | None:
        """Return the points of each muscle in the world, in m, from origin to insertion.

        None, the default, if only the length is known, as of a `PolynomialPath`: then no muscle has a place.
        """
        return None


def as_lengths(name: str, value: Any) -> Array:
    """Return `value` as a finite array of shape (muscles,), or raise `ValueError`."""
    lengths = as_float_array(value)
    if lengths.ndim != 1:
        raise ValueError(f"`{name}` must be one number for each muscle, got shape {lengths.shape}.")
    check_finite(name, value)
    return lengths


def as_table(name: str, value: Any, n_muscles: int) -> Array:
    """Return `value` as a finite array of shape (muscles, coordinates), or raise `ValueError`."""
    table = as_float_array(value)
    if table.ndim != 2 or table.shape[0] != n_muscles:
        raise ValueError(
            f"`{name}` must have shape (muscles, coordinates), here ({n_muscles}, ...), got {table.shape}."
        )
    check_finite(name, value)
    return table


def as_table_like(name: str, value: Any, like: Array) -> Array:
    """Return `value` as a finite array broadcast over missing axes of `like`, or raise `ValueError`."""
    table = as_float_array(value)
    if table.shape not in ((), like.shape[1:], like.shape):
        raise ValueError(f"`{name}` must have shape {like.shape} or {like.shape[1:]}, got {table.shape}.")
    check_finite(name, value)
    return jnp.broadcast_to(table, like.shape)


def check_configuration(configuration: Array, n_coordinates: int) -> None:
    """Raise `ValueError` unless `configuration` has `n_coordinates` coordinates."""
    if configuration.shape[-1] != n_coordinates:
        raise ValueError(
            f"`path` must run over a body of {configuration.shape[-1]} coordinates, "
            f"got one over {n_coordinates}."
        )


def path_velocity(path: AbstractMusclePath, configuration: Coordinates, velocity: Coordinates) -> Muscles:
    """Return d length / dt of each muscle in m/s, lengthening positive.

    **Arguments:**

    - `path`: the paths of the muscles.
    - `configuration`: the coordinates of the skeleton, in rad or m.
    - `velocity`: d configuration / dt.
    """
    return jax.jvp(path.length, (configuration,), (velocity,))[1]


def moment_arms(path: AbstractMusclePath, configuration: Coordinates) -> Float[Array, "muscles coordinates"]:
    """Return d length / d configuration, in m/rad, or dimensionless if the coordinate is a position.

    It is positive if the muscle lengthens with the coordinate; its force then decreases the coordinate.
    """
    return path.arms(configuration)


def generalised_force(path: AbstractMusclePath, configuration: Coordinates, force: Muscles) -> Coordinates:
    """Return the generalised force of the muscles, -moment_arms' force, in N m, or N.

    **Arguments:**

    - `path`: the paths of the muscles.
    - `configuration`: the coordinates of the skeleton.
    - `force`: the force of each muscle in N, positive.
    """
    return -moment_arms(path, configuration).T @ force


class ConstantMomentArmPath(AbstractMusclePath):
    """length = offset + sum over joints of moment_arm (configuration - reference).

    **Arguments:**

    - `offset`: the lengths at the reference, of shape (muscles,), in m.
    - `moment_arm`: d length / d angle, of shape (muscles, coordinates), in m/rad: positive if the muscle
        lengthens with the angle. Tables in which it is positive for a positive torque have the opposite sign.
    - `reference`: the angles at which the length is `offset`, in rad, of shape (muscles, coordinates),
        (coordinates,) or scalar.
    """

    offset: Float[Array, "*members muscles"]
    moment_arm: Float[Array, "*members muscles coordinates"]
    reference: Float[Array, "*members muscles coordinates"]

    def __init__(self, offset: Any, moment_arm: Any, reference: Any = 0.0):
        self.offset = as_lengths("offset", offset)
        self.moment_arm = as_table("moment_arm", moment_arm, self.offset.shape[0])
        self.reference = as_table_like("reference", reference, self.moment_arm)
        warn_of_unit("reference", reference, "angle")

    def length(self, configuration: Coordinates) -> Muscles:
        check_configuration(configuration, self.moment_arm.shape[1])
        return self.offset + jnp.sum(self.moment_arm * (configuration - self.reference), axis=1)

    def arms(self, configuration: Coordinates) -> Float[Array, "muscles coordinates"]:
        check_configuration(configuration, self.moment_arm.shape[1])
        return self.moment_arm

    def with_muscle(self, other: AbstractMusclePath) -> "ConstantMomentArmPath":
        return join(self, other)


class PolynomialPath(AbstractMusclePath):
    """length = offset + sum over joints of (linear + quadratic p) p, with p = configuration - reference.

    The moment arm is linear in the angle: linear + 2 quadratic p.

    **Arguments:**

    - `offset`: the lengths at the reference, of shape (muscles,), in m.
    - `linear`: in m/rad, of shape (muscles, coordinates).
    - `quadratic`: in m/rad², of shape (muscles, coordinates), (coordinates,) or scalar.
    - `reference`: the angles at which p is zero, in rad, with the same shapes.
    """

    offset: Float[Array, "*members muscles"]
    linear: Float[Array, "*members muscles coordinates"]
    quadratic: Float[Array, "*members muscles coordinates"]
    reference: Float[Array, "*members muscles coordinates"]

    def __init__(self, offset: Any, linear: Any, quadratic: Any, reference: Any = 0.0):
        self.offset = as_lengths("offset", offset)
        self.linear = as_table("linear", linear, self.offset.shape[0])
        self.quadratic = as_table_like("quadratic", quadratic, self.linear)
        self.reference = as_table_like("reference", reference, self.linear)
        warn_of_unit("reference", reference, "angle")

    def length(self, configuration: Coordinates) -> Muscles:
        check_configuration(configuration, self.linear.shape[1])
        difference = configuration - self.reference
        return self.offset + jnp.sum((self.linear + self.quadratic * difference) * difference, axis=1)

    def arms(self, configuration: Coordinates) -> Float[Array, "muscles coordinates"]:
        check_configuration(configuration, self.linear.shape[1])
        return self.linear + 2 * self.quadratic * (configuration - self.reference)

    def with_muscle(self, other: AbstractMusclePath) -> "PolynomialPath":
        return join(self, other)


class AbstractPlacement(eqx.Module):
    """The position of points that are fixed to segments of a skeleton. A subclass supplies `place`.

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
    def place(self, configuration: Coordinates, segment: int, point: Position) -> Position:
        """Return the position of a point in world coordinates, in m.

        **Arguments:**

        - `configuration`: the coordinates of the skeleton.
        - `segment`: the index of the segment; 0 is the world.
        - `point`: the position in the coordinates of the segment, in m.
        """


class PointMassPlacement(AbstractPlacement):
    """Placement on a point mass: segment 0 is the world, segment 1 the mass, which does not rotate."""

    def place(self, configuration: Coordinates, segment: int, point: Position) -> Position:
        check_segment(segment, 1)
        return point + configuration if segment == 1 else point


class ChainPlacement(AbstractPlacement):
    """Placement on a planar chain of segments, with its first joint at the origin.

    Segment 0 is the world. In the coordinates of segment k the proximal joint is at the origin and the distal
    joint at (length, 0). Angles are relative to the previous segment.

    **Arguments:**

    - `length`: of each segment, in m. These are separate parameters from the lengths of an arm.
    """

    length: Float[Array, "*members segments"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_positive("length", self.length)
        if self.length.ndim != 1 or self.length.size == 0:
            raise ValueError(f"`length` must be one for each segment, got shape {self.length.shape}.")

    def place(self, configuration: Coordinates, segment: int, point: Position) -> Position:
        check_segment(segment, self.length.shape[0])
        if segment == 0:
            return point
        check_configuration(configuration, self.length.shape[0])
        angles = jnp.cumsum(configuration[:segment])
        directions = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
        joint = self.length[: segment - 1] @ directions[: segment - 1]
        x, y = directions[-1]
        return joint + point[0] * jnp.stack([x, y]) + point[1] * jnp.stack([-y, x])


def check_segment(segment: int, last: int) -> None:
    """Raise `ValueError` unless `segment` is from 0 to `last`."""
    if not 0 <= segment <= last:
        raise ValueError(f"`segment` must be from 0, the world, to {last}, got {segment}.")


class StraightPath(AbstractMusclePath):
    """Straight lines from point to point; the length of a muscle is the sum of the distances.

    Coincident points contribute nothing to the length or the gradient.

    **Arguments:**

    - `placement`: the placement of points on the skeleton.
    - `muscles`: for each muscle, two or more points from origin to insertion, each a pair of a segment and a
        position (m) in its coordinates: `[(0, (0.1, 0.0)), (1, (0.02, 0.01))]`.
    """

    placement: AbstractPlacement
    points: tuple[Float[Array, "*members _ space"], ...]
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

    def length(self, configuration: Coordinates) -> Muscles:
        return jnp.stack([_summed_distance(places) for places in self.world_points(configuration)])

    def world_points(self, configuration: Coordinates) -> tuple[Float[Array, "_ space"], ...]:
        """Return the points of each muscle in the world, in m, from origin to insertion."""
        return tuple(
            jnp.stack([self.placement.place(configuration, *fixed) for fixed in zip(*muscle, strict=True)])
            for muscle in zip(self.segments, self.points, strict=True)
        )

    def with_muscle(self, other: AbstractMusclePath) -> "StraightPath":
        """Return the paths of these muscles followed by those of `other`, with the placement of this path."""
        if not isinstance(other, StraightPath) or type(other.placement) is not type(self.placement):
            raise ValueError(f"`other` must be a straight path over the same body, got {other!r}.")
        muscles = [
            list(zip(segments, points, strict=True))
            for path in (self, other)
            for segments, points in zip(path.segments, path.points, strict=True)
        ]
        return StraightPath(self.placement, muscles)


def _summed_distance(places: Float[Array, "point space"]) -> Float[Array, ""]:
    steps = jnp.diff(places, axis=0)
    squares = jnp.sum(steps**2, axis=1)
    is_apart = squares > 0  # the gradient of the square root is infinite at zero
    return jnp.sum(jnp.where(is_apart, jnp.sqrt(jnp.where(is_apart, squares, 1.0)), 0.0))


def _positions(positions: list[Any]) -> Array:
    arrays = [as_float_array(position) for position in positions]
    if any(array.ndim != 1 or array.shape != arrays[0].shape for array in arrays):
        shapes = [array.shape for array in arrays]
        raise ValueError(f"`muscles` must have positions with the same axes at all points, got {shapes}.")
    for array in arrays:
        check_finite("muscles", array)
    return jnp.stack(arrays)
