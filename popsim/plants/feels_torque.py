"""Whether torques of the world move a body."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from popsim.checks import known
from popsim.plants.abstract import AbstractPlant
from popsim.plants.load import Load


def check_feels_torque(plant: AbstractPlant) -> None:
    """Raise `ValueError` unless forces on the coordinates of `plant`, such as torques, act on it."""
    feels = known(_feels_torque, plant)
    if feels is not None and not feels:
        raise ValueError(
            f"`plant` must be moved by `load.on_coordinates`, for torques of the world to act: an "
            f"AbstractSkeleton, or muscles on one; got {type(plant).__name__}."
        )


@eqx.filter_jit
def _feels_torque(plant: AbstractPlant) -> Bool[Array, ""]:
    """Compared at rest, with one N m on each coordinate."""
    body = plant.at_rest(plant.workspace.center)
    command = jnp.zeros(plant.n_commands, plant.workspace.center.dtype)
    freely, under = (
        jax.tree.leaves(plant.vector_field(0.0, body, command, load))
        for load in (Load(), Load(on_coordinates=lambda coordinates, velocities: jnp.ones_like(coordinates)))
    )
    return jnp.any(jnp.stack([jnp.any(a != b) for a, b in zip(freely, under, strict=True)]))
