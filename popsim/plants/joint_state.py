"""The state of jointed bodies."""

import equinox as eqx
from jaxtyping import Array, Float


class JointState(eqx.Module):
    """Angles (rad) and velocities (rad/s) of joints, each angle relative to the segment before it."""

    angle: Float[Array, "*axes joint"]
    velocity: Float[Array, "*axes joint"]
