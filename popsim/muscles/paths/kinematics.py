"""What follows from the length of a muscle path, by automatic differentiation."""

import jax
from jaxtyping import Array, Float

from popsim.muscles.paths.abstract import AbstractMusclePath


def path_velocity(
    path: AbstractMusclePath,
    configuration: Float[Array, " coordinates"],
    velocity: Float[Array, " coordinates"],
) -> Float[Array, " muscles"]:
    """d length / dt of each muscle in m/s, lengthening positive.

    **Arguments:**

    - `path`: how the muscles run.
    - `configuration`: the coordinates of the body, in rad or m.
    - `velocity`: d configuration / dt.
    """
    return jax.jvp(path.length, (configuration,), (velocity,))[1]


def moment_arms(
    path: AbstractMusclePath, configuration: Float[Array, " coordinates"]
) -> Float[Array, "muscles coordinates"]:
    """d length / d configuration, in m/rad, or without unit where the coordinate is a position.

    Positive where a greater coordinate makes the muscle longer, so that its pull makes it smaller.
    """
    return jax.jacfwd(path.length)(configuration)


def generalised_force(
    path: AbstractMusclePath, configuration: Float[Array, " coordinates"], force: Float[Array, " muscles"]
) -> Float[Array, " coordinates"]:
    """What the pull of the muscles does on the coordinates: -moment_arms' force, in N m, or N.

    **Arguments:**

    - `path`: how the muscles run.
    - `configuration`: the coordinates of the body.
    - `force`: the pull of each muscle in N, positive.
    """
    return -moment_arms(path, configuration).T @ force
