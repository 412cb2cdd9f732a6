"""What the command costs."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.model import AbstractModel
from popsim.trial import Trial


class Effort(AbstractLossTerm):
    """Sum over time of |u_t|², u the network's command before motor noise, in its unit squared."""

    name: str = eqx.field(static=True, default="effort", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        return jnp.sum(states.network.output**2)
