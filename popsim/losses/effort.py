"""What the command costs."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.time_profile import AbstractTimeProfile, InWindow, step_weights
from popsim.model import AbstractModel
from popsim.trial import Trial


class Effort(AbstractLossTerm):
    """Sum over time of w_t |u_t|², u the network's command before motor noise, in its unit squared.

    **Arguments:**

    - `profile`: w, how much each time step counts; by default all alike.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="effort", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        squared = states.network.output**2
        return jnp.sum(step_weights(self.profile, trial.timeline)[:, None] * squared)
