"""The scheduled forces of the world, as the load of a body."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.hand import HandState
from popsim.interventions.abstract import AbstractForceField, AbstractTorqueField
from popsim.interventions.load_mass import LoadMass
from popsim.interventions.scheduled import Intervention
from popsim.plants import Load
from popsim.trial import InterventionSchedule


def load_of_world(
    interventions: tuple[Intervention, ...],
    scheduled: dict[str, InterventionSchedule],
    constant: Float[Array, " space"],
) -> Load:
    """What the world does to a body: on its hand `constant` (N), and the active fields and masses."""
    held = [(field, scheduled[field.name]) for field in interventions if field.name in scheduled]
    on_hand = [(field, when) for field, when in held if isinstance(field, AbstractForceField)]
    on_joints = [(field, when) for field, when in held if isinstance(field, AbstractTorqueField)]
    masses = [(mass, when) for mass, when in held if isinstance(mass, LoadMass)]

    def force(hand: HandState) -> Float[Array, " space"]:
        total = constant
        for field, when in on_hand:
            total = jnp.where(when.active, total + field.force(when.parameters, hand), total)
        return total

    def torque(
        coordinates: Float[Array, " coordinates"], velocities: Float[Array, " coordinates"]
    ) -> Float[Array, " coordinates"]:
        total = jnp.zeros_like(coordinates)
        for field, when in on_joints:
            given = field.torque(when.parameters, coordinates, velocities)
            total = jnp.where(when.active, total + given, total)
        return total

    carried = [jnp.where(when.active, load.mass(when.parameters), 0.0) for load, when in masses]
    return Load(force, torque if on_joints else None, sum(carried[1:], carried[0]) if carried else None)
