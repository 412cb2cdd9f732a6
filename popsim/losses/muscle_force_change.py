"""What it costs to change the force of muscles."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.muscles_of import relative_forces
from popsim.losses.rate_of_change import rate_of_change
from popsim.losses.time_profile import AbstractTimeProfile, InWindow, step_weights
from popsim.model import AbstractModel
from popsim.trial import Trial


class MuscleForceChange(AbstractLossTerm):
    """Sum over time of w_t |df_t/dt|², in 1/s², f the force of each muscle in maximal isometric forces.

    df_t/dt = (f_t - f_{t-1}) / dt, from the second step on.

    **Arguments:**

    - `profile`: w, how much each time step counts; by default all alike.

    **Raises:** `ValueError` when called, if the body has no muscles.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="muscle force change", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        squared = rate_of_change(relative_forces(self.name, states, model), trial.timeline.dt) ** 2
        return jnp.sum(step_weights(self.profile, trial.timeline)[:, None] * squared)
