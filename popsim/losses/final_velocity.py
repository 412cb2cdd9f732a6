"""How fast the cursor still is at the end."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.model import AbstractModel
from popsim.trial import Trial, check_hand_targets


class FinalVelocity(AbstractLossTerm):
    """|v_cursor - v_target|² at the last time step, in m²/s²."""

    name: str = eqx.field(static=True, default="final velocity", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        check_hand_targets(trial)
        return jnp.sum((states.cursor.velocity[-1] - trial.targets.velocity[-1]) ** 2)
