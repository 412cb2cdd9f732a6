"""How far the velocity of the cursor is from that of the target."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.losses.distances import AbstractDistance, SquaredDistance
from popsim.losses.time_profile import AbstractTimeProfile, PowerProfile, weighted_sum
from popsim.model import AbstractModel
from popsim.trial import Trial, check_hand_targets


class VelocityError(AbstractLossTerm):
    """Sum over time of w_t |v_cursor,t - v_target,t|², in m²/s².

    **Arguments:**

    - `distance`: what stands for |·|², as of a `PositionError`.
    - `profile`: w, how much each time step counts.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    profile: AbstractTimeProfile = eqx.field(default=PowerProfile(), kw_only=True)
    name: str = eqx.field(static=True, default="velocity error", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial, states.cursor)
        error = self.distance(states.cursor.velocity - trial.targets.velocity)
        return weighted_sum(self.profile, trial.timeline, error, self.distance)
