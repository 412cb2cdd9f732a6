"""What the world does to a body."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.hand import HandState

HandLoad = Callable[[HandState], Float[Array, " space"]]
CoordinateLoad = Callable[
    [Float[Array, " coordinates"], Float[Array, " coordinates"]], Float[Array, " coordinates"]
]


@dataclasses.dataclass(frozen=True)
class Load:
    """The forces of the world on a body, as functions of how it is and moves; None for no such force.

    They are evaluated at every stage of every substep, so that a stiff wall or a fast field is felt at once.

    - `on_hand`: from position (m) and velocity (m/s) of the hand to the force on it, in N.
    - `on_coordinates`: from the coordinates of the body and their velocities (of an arm angles, in rad, and
        rad/s) to the generalised force on them (torques, in N m).
    - `hand_mass`: a mass held in the hand, in kg. It adds the force -m a, a the acceleration of the hand with
        the mass in it: see `AbstractSkeleton.vector_field`.
    """

    on_hand: HandLoad | None = None
    on_coordinates: CoordinateLoad | None = None
    hand_mass: Float[Array, ""] | None = None

    def hand_force(self, hand: HandState) -> Float[Array, " space"]:
        """The force on the hand, in N, without that of a mass in it."""
        return jnp.zeros_like(hand.position) if self.on_hand is None else self.on_hand(hand)
