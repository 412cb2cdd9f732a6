"""What it costs to change the activity of the network."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.rate_of_change import rate_of_change
from popsim.losses.time_profile import AbstractTimeProfile, InWindow, step_weights
from popsim.model import AbstractModel
from popsim.trial import Trial


class HiddenActivityChange(AbstractLossTerm):
    """Sum over time of w_t |dh_t/dt|², in 1/s², h the hidden units of the network, with a body or without.

    dh_t/dt = (h_t - h_{t-1}) / dt, from the second step on. It keeps the trajectories of the units slow.

    **Arguments:**

    - `profile`: w, how much each time step counts; by default all alike.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="hidden activity change", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        squared = rate_of_change(states.network.hidden, trial.timeline.dt) ** 2
        return jnp.sum(step_weights(self.profile, trial.timeline)[:, None] * squared)
