"""What the activity of the network costs."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.time_profile import AbstractTimeProfile, InWindow, step_weights
from popsim.model import AbstractModel
from popsim.trial import Trial


class HiddenActivity(AbstractLossTerm):
    """Sum over time of w_t |h_t|², h the hidden units of the network (`states.network.hidden`, with a body
    or without).

    **Arguments:**

    - `profile`: w, how much each time step counts; by default all alike.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="hidden activity", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        squared = states.network.hidden**2
        return jnp.sum(step_weights(self.profile, trial.timeline)[:, None] * squared)
