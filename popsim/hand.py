"""The hand: what a body moves and a reaching task is about."""

import equinox as eqx
from jaxtyping import Array, Float


class HandState(eqx.Module):
    """Where the hand is and how fast it moves.

    Also used for the cursor that stands for the hand on a screen, for the start of a trial, and for the
    time course of a target. Leading axes (member, trial, time) may stand before `space`.
    """

    position: Float[Array, "*axes space"]  # m
    velocity: Float[Array, "*axes space"]  # m/s
