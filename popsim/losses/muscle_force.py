"""What the force of muscles costs."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.muscles_of import relative_forces
from popsim.losses.time_profile import AbstractTimeProfile, InWindow, step_weights
from popsim.model import AbstractModel
from popsim.trial import Trial


class MuscleForce(AbstractLossTerm):
    """Sum over time of w_t |f_t|², f the force of each muscle in maximal isometric forces.

    So strong and weak muscles count alike; the force includes what muscles pull passively.

    **Arguments:**

    - `profile`: w, how much each time step counts; by default all alike.

    **Raises:** `ValueError` when called, if the body has no muscles.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="muscle force", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        squared = relative_forces(self.name, states, model) ** 2
        return jnp.sum(step_weights(self.profile, trial.timeline)[:, None] * squared)
