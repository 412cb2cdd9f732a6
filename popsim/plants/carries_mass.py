"""Whether a body feels a mass in its hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from popsim.checks import known
from popsim.plants.abstract import AbstractPlant
from popsim.plants.load import Load


def check_carries_mass(plant: AbstractPlant) -> None:
    """Raise `ValueError` unless a mass in the hand of `plant` makes a force on it accelerate it less."""
    carries = known(_carries_mass, plant)
    if carries is not None and not carries:
        raise ValueError(
            f"`plant` must have a hand that forces accelerate, to carry a mass: an AbstractSkeleton whose "
            f"`hand` tells its velocity, or muscles on one; got {type(plant).__name__}."
        )


@eqx.filter_jit
def _carries_mass(plant: AbstractPlant) -> Bool[Array, ""]:
    """Compared along each axis, with one kilogram."""
    body = plant.at_rest(plant.workspace.center)
    command = jnp.zeros(plant.n_commands, plant.workspace.center.dtype)

    def acceleration(push: Float[Array, " space"], mass: float) -> Float[Array, " space"]:
        load = Load(lambda hand: push, hand_mass=jnp.asarray(mass, push.dtype))
        rate = plant.vector_field(0.0, body, command, load)
        return jax.jvp(lambda state: plant.hand(state).velocity, (body,), (rate,))[1]

    pushes = jnp.eye(plant.workspace.center.shape[0], dtype=command.dtype)
    freely = jax.vmap(lambda push: acceleration(push, 0.0))(pushes)
    laden = jax.vmap(lambda push: acceleration(push, 1.0))(pushes)
    return jnp.any(freely != laden)
