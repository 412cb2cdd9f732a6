"""How fast the cursor still is at the end."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.losses.distances import AbstractDistance, SquaredDistance
from popsim.model import AbstractModel
from popsim.trial import Trial, check_hand_targets


class FinalVelocity(AbstractLossTerm):
    """|v_cursor - v_target|² at the last time step, in m²/s².

    **Arguments:**

    - `distance`: what stands for |·|², as of a `PositionError`.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="final velocity", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial, states.cursor)
        return self.distance(states.cursor.velocity[-1] - trial.targets.velocity[-1])
