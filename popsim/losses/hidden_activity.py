"""What the activity of the network costs."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loop_state import LoopState
from popsim.loss import AbstractLossTerm
from popsim.model import AbstractModel
from popsim.trial import Trial


class HiddenActivity(AbstractLossTerm):
    """Sum over time of |h_t|², h the hidden units of the network."""

    name: str = eqx.field(static=True, default="hidden activity", kw_only=True)

    def __call__(self, states: LoopState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        return jnp.sum(states.network.hidden**2)
