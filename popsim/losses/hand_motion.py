"""How the hand moves from its start on: what terms about motion measure."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.hand import HandState
from popsim.trial import Trial


def hand_acceleration(states: Any, trial: Trial) -> Float[Array, "time space"]:
    """(v_t - v_{t-1}) / dt of the hand, in m/s²; before the first step v is that of `trial.init`.

    **Raises:** `ValueError` unless there is a hand in `states`, and it starts as `trial.init` says.
    """
    check_hand(states, trial)
    velocity = jnp.concatenate([trial.init.velocity[None], states.hand.velocity])
    return jnp.diff(velocity, axis=0) / trial.timeline.dt


def hand_jerk(states: Any, trial: Trial) -> Float[Array, "time space"]:
    """(a_t - a_{t-1}) / dt of the hand, in m/s³; before the first step a is zero.

    **Raises:** as `hand_acceleration`.
    """
    acceleration = hand_acceleration(states, trial)
    before = jnp.concatenate([jnp.zeros_like(acceleration[:1]), acceleration[:-1]])
    return (acceleration - before) / trial.timeline.dt


def check_hand(states: Any, trial: Trial) -> None:
    """Raise `ValueError` unless there is a hand in `states`, and `trial.init` says where it starts."""
    if not isinstance(getattr(states, "hand", None), HandState):
        raise ValueError(f"`states` must be those of a body with a hand, got {type(states).__name__}.")
    if not isinstance(trial.init, HandState):
        raise ValueError(f"`init` of a trial must be a HandState, got {type(trial.init).__name__}.")
    for name in ("position", "velocity"):
        own, expected = getattr(trial.init, name).shape, getattr(states.hand, name).shape[1:]
        if own != expected:
            raise ValueError(f"`init.{name}` of a trial must have the shape {expected}, got {own}.")
