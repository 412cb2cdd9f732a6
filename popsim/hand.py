"""The hand, the loads on it and on its body, and the workspace in which it moves."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim._shared.argument_shapes import check_one_or_each
from popsim._shared.checks import as_float_array, check_finite, is_traced, short_repr
from popsim.parameters import Constants
from popsim.randomness import as_key

__all__ = ["HandState", "Load", "Workspace"]

Position = Float[Array, " space"]
Coordinates = Float[Array, " coordinates"]


class HandState(eqx.Module):
    """The position and velocity of the hand.

    Also used for the cursor that represents the hand on a screen, for the start of a trial, and for the time
    course of a target. Arrays may have leading axes (member, trial, time).
    """

    position: Float[Array, "*axes space"]  # m
    velocity: Float[Array, "*axes space"]  # m/s


@dataclasses.dataclass(frozen=True)
class Load:
    """External forces on a plant, as functions of its state; None for no force.

    They are evaluated at every stage of every substep, so stiff walls and fast fields act without delay.

    - `on_hand`: maps position (m) and velocity (m/s) of the hand to the force on it, in N.
    - `on_coordinates`: maps the coordinates and their velocities (for an arm: joint angles in rad, and
        rad/s) to the generalised force on them (torques, in N m).
    - `hand_mass`: a mass m held in the hand, in kg. It adds the force -m a, where a is the acceleration of
        the hand with the mass; see `AbstractSkeleton.vector_field`.
    """

    on_hand: Callable[[HandState], Position] | None = None
    on_coordinates: Callable[[Coordinates, Coordinates], Coordinates] | None = None
    hand_mass: Float[Array, ""] | None = None

    def hand_force(self, hand: HandState) -> Position:
        """Return the force on the hand, in N, without the inertial force of `hand_mass`."""
        return jnp.zeros_like(hand.position) if self.on_hand is None else self.on_hand(hand)


class Workspace(eqx.Module):
    """An axis-aligned box of positions, in metres.

    **Arguments:**

    - `low`: the corner with the smallest coordinates.
    - `high`: the corner with the largest coordinates.
    """

    constants: ClassVar[Constants] = "all"
    low: Float[Array, " space"] = eqx.field(converter=as_float_array)
    high: Float[Array, " space"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_finite("low", self.low)
        check_finite("high", self.high)
        if self.low.ndim != 1 or self.low.shape != self.high.shape:
            raise ValueError(
                "`low` and `high` of a workspace must be vectors of one length, "
                f"got shapes {self.low.shape} and {self.high.shape}."
            )
        if not is_traced(self.low, self.high) and not np.all(np.asarray(self.low) < np.asarray(self.high)):
            raise ValueError(
                "`high` of a workspace must exceed `low`, "
                f"got low {short_repr(self.low)} and high {short_repr(self.high)}."
            )

    @classmethod
    def around(cls, center: Float[Array, " space"], side: float) -> "Workspace":
        """Return the square (or cube) with the given `center` and `side`, in metres."""
        center = as_float_array(center)
        check_one_or_each("side", side)
        return cls(center - side / 2, center + side / 2)

    @property
    def center(self) -> Float[Array, " space"]:
        """The center of the box, in metres."""
        return (self.low + self.high) / 2

    @property
    def half_widths(self) -> Float[Array, " space"]:
        """Half the extent of the box along each axis, in metres."""
        return (self.high - self.low) / 2

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, " space"]:
        """Draw a position uniformly from the box, in metres."""
        return jax.random.uniform(as_key(key), self.low.shape, self.low.dtype, self.low, self.high)
