"""How far the cursor, that stands for the hand, is from the target."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.losses.distances import AbstractDistance, SquaredDistance
from popsim.losses.time_profile import AbstractTimeProfile, PowerProfile, weighted_sum
from popsim.model import AbstractModel
from popsim.trial import Trial, check_hand_targets


class PositionError(AbstractLossTerm):
    """Sum over time of w_t |cursor_t - target_t|², in m².

    **Arguments:**

    - `distance`: what stands for |·|²: `SquaredDistance`, `EuclideanDistance`, `L1Distance` (both in m), or
        `HuberDistance(delta)`, with delta in m.
    - `profile`: w, how much each time step counts.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    profile: AbstractTimeProfile = eqx.field(default=PowerProfile(), kw_only=True)
    name: str = eqx.field(static=True, default="position error", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial, states.cursor)
        error = self.distance(states.cursor.position - trial.targets.position)
        return weighted_sum(self.profile, trial.timeline, error, self.distance)
