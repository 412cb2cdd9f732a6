"""How far the path of the cursor is from the straight line to the target."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.losses.distances import AbstractDistance, SquaredDistance
from popsim.losses.hand_motion import check_hand
from popsim.losses.time_profile import AbstractTimeProfile, InWindow, weighted_sum
from popsim.model import AbstractModel
from popsim.trial import Trial, check_hand_targets


class Straightness(AbstractLossTerm):
    """Sum over time of w_t |d_t|², in m², d_t what leads from the line start-target to the cursor.

    The line, without ends, goes through the start of the trial and through the target at its last step;
    d_t is square to it. Where both are one, as in a catch trial whose target is to stay, the term is zero.

    **Arguments:**

    - `distance`: what stands for |·|², as of a `PositionError`.
    - `profile`: w, how much each time step counts; by default all alike.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="straightness", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand(states, trial)
        check_hand_targets(trial, states.cursor)
        line = trial.targets.position[-1] - trial.init.position
        squared_length = jnp.sum(line**2)
        is_point = squared_length == 0
        along = line / jnp.sqrt(jnp.where(is_point, 1.0, squared_length))
        moved = states.cursor.position - trial.init.position
        beside = moved - jnp.sum(moved * along, axis=-1, keepdims=True) * along
        away = self.distance(jnp.where(is_point, 0.0, beside))
        return weighted_sum(self.profile, trial.timeline, away, self.distance)
