"""How the hand speeds up, slows down and turns."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.hand_motion import hand_acceleration
from popsim.losses.time_profile import AbstractTimeProfile, InWindow, step_weights
from popsim.model import AbstractModel
from popsim.trial import Trial


class Acceleration(AbstractLossTerm):
    """Sum over time of w_t |a_t|², in m²/s⁴, with a_t = (v_t - v_{t-1}) / dt of the hand, which starts at
    rest.

    **Arguments:**

    - `profile`: w, how much each time step counts; by default all alike.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="acceleration", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        squared = hand_acceleration(states, trial) ** 2
        return jnp.sum(step_weights(self.profile, trial.timeline)[:, None] * squared)
