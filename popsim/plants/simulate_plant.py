"""A body by itself, driven by given commands."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from popsim.checks import check_positive
from popsim.hand import HandState
from popsim.plants.abstract import AbstractPlant
from popsim.plants.integrate import advance


class PlantTrajectory(eqx.Module):
    """The course of a plant: row t is at time (t + 1) dt."""

    state: PyTree[Array]
    hand: HandState


def simulate_plant(
    plant: AbstractPlant,
    commands: Float[Array, "time commands"],
    *,
    initial_state: PyTree[Array] = None,
    external_force: Float[Array, "time space"] | Float[Array, " space"] | None = None,
    dt: float,
) -> PlantTrajectory:
    """Drive a body with given commands.

    **Arguments:**

    - `plant`: the body.
    - `commands`: the motor command at each step, held over the step.
    - `initial_state`: where it starts; by default at rest with the hand amid its workspace.
    - `external_force`: the force on the hand in N, constant or one for each step; by default none.
    - `dt`: the time step in seconds.

    **Returns:** states and hand at the end of each step.

    **Raises:** `ValueError` if `dt` is not positive, or `commands` or `external_force` has a wrong shape.
    """
    check_positive("dt", dt)
    if commands.ndim != 2 or commands.shape[1] != plant.n_commands:
        raise ValueError(
            f"`commands` must have shape (time, {plant.n_commands}) for this plant, got {commands.shape}."
        )
    state = plant.at_rest(plant.workspace.center) if initial_state is None else initial_state
    space = plant.workspace.center.shape[0]
    force = jnp.zeros(space, commands.dtype) if external_force is None else external_force
    if force.shape not in ((space,), (commands.shape[0], space)):
        raise ValueError(
            f"`external_force` must have shape ({space},) or ({commands.shape[0]}, {space}), "
            f"got {force.shape}."
        )
    forces = jnp.broadcast_to(force, (commands.shape[0], space))

    def step(state, driven_by):
        command, force = driven_by
        state = advance(plant, state, command, lambda hand: force, dt=dt)
        return state, PlantTrajectory(state, plant.hand(state))

    return jax.lax.scan(step, state, (commands, forces))[1]
