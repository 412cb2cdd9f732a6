"""What the activation of muscles costs."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.muscles_of import muscles_of
from popsim.losses.time_profile import AbstractTimeProfile, InWindow, step_weights
from popsim.model import AbstractModel
from popsim.trial import Trial


class MuscleActivation(AbstractLossTerm):
    """Sum over time of w_t |a_t|², a the activation of each muscle, from zero to one.

    **Arguments:**

    - `profile`: w, how much each time step counts; by default all alike.

    **Raises:** `ValueError` when called, if the body has no muscles.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="muscle activation", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        muscles_of(self.name, model)
        squared = states.plant.activation**2
        return jnp.sum(step_weights(self.profile, trial.timeline)[:, None] * squared)
