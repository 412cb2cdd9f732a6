"""The contract of a muscle path: how long each muscle is in each posture of the body."""

import abc
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from popsim.parameters import Constants


class AbstractMusclePath(eqx.Module):
    """How muscles run over a body.

    A subclass supplies `length` and `with_muscle`. Velocities, moment arms and the forces on the body's
    coordinates follow from the length: `path_velocity`, `moment_arms`, `generalised_force`.

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
    def length(self, configuration: Float[Array, " coordinates"]) -> Float[Array, " muscles"]:
        """The length of each musculotendon, in m.

        **Arguments:**

        - `configuration`: the coordinates of the body: joint angles in rad, or a position in m.
        """

    @abc.abstractmethod
    def with_muscle(self, other: "AbstractMusclePath") -> "AbstractMusclePath":
        """These muscles, and after them those of `other`, a path of one muscle or several.

        **Raises:** `ValueError` if `other` is a path of another class or over another body.
        """
