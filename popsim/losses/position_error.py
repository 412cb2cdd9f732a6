"""How far the cursor, that stands for the hand, is from the target."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.losses.time_profile import AbstractTimeProfile, PowerProfile
from popsim.model import AbstractModel
from popsim.trial import Trial, check_hand_targets


class PositionError(AbstractLossTerm):
    """Sum over time of w_t |cursor_t - target_t|², in m².

    **Arguments:**

    - `profile`: w, how much each time step counts.
    """

    profile: AbstractTimeProfile = eqx.field(default=PowerProfile(), kw_only=True)
    name: str = eqx.field(static=True, default="position error", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial)
        squared = jnp.sum((states.cursor.position - trial.targets.position) ** 2, axis=-1)
        return jnp.sum(self.profile(trial.timeline) * squared)
