"""How far the cursor is from the target at the end."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.losses.distances import AbstractDistance, SquaredDistance
from popsim.model import AbstractModel
from popsim.trial import Trial, check_hand_targets


class FinalPosition(AbstractLossTerm):
    """|cursor - target|² at the last time step, in m².

    **Arguments:**

    - `distance`: what stands for |·|², as of a `PositionError`.
    """

    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="final position", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial, states.cursor)
        return self.distance(states.cursor.position[-1] - trial.targets.position[-1])
