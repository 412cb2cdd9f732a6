"""How the hand moved: speed and end-point error."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.hand import HandState


def hand_speed(hand: HandState) -> Float[Array, "*axes time"]:
    """Tangential speed of the hand at each time step, in m/s.

    **Arguments:**

    - `hand`: with leading axes such as (member, trial, time).
    """
    return jnp.linalg.norm(hand.velocity, axis=-1)


def cursor_error(cursor: HandState, targets: HandState) -> Float[Array, "*axes trial time"]:
    """Distance from the cursor to the target at each time step, in m.

    `last_in_window` and `mean_in_window` say it of an epoch, or from an event on.

    **Arguments:** as for `end_point_error`.
    """
    return jnp.linalg.norm(cursor.position - targets.position, axis=-1)


def end_point_error(cursor: HandState, targets: HandState) -> Float[Array, "*axes trial"]:
    """Distance from the cursor to the target at the last time step, in m.

    **Arguments:**

    - `cursor`: what is seen of the hand, with leading axes such as (member, trial, time).
    - `targets`: those of the trials, with leading axes (trial, time).
    """
    return jnp.linalg.norm(cursor.position[..., -1, :] - targets.position[:, -1], axis=-1)
