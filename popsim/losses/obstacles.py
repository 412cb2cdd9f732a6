"""Losses on obstacles in the way of the hand."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim._shared.checks import as_float_array, check_non_negative
from popsim.losses.profiles import AbstractSumOfSquares, EuclideanDistance
from popsim.losses.reach import check_hand
from popsim.model import AbstractModel
from popsim.trial import Trial

__all__ = ["ObstacleEntry"]


class ObstacleEntry(AbstractSumOfSquares):
    """Sum over time of w_t max(0, R + m - |x_t - c|)², in m²: how deep the cursor is in a round obstacle.

    x is the cursor, c and R the centre and the radius of the obstacle, m the margin. The trial shows them in
    the inputs "obstacle" and "obstacle radius" (m); an obstacle does not move, and has radius 0 where there
    is none. Between time steps the cursor is not seen.

    **Arguments:**

    - `margin`: m, how far from the obstacle the cursor should stay, in m.
    - `profile`: w, the weights of the time steps; uniform by default.
    """

    margin: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.0, kw_only=True)
    name: str = eqx.field(static=True, default="obstacle entry", kw_only=True)

    def __check_init__(self):
        check_non_negative("margin", self.margin)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time 1"]:
        check_hand(states, trial)
        clearance = clearance_at(states.cursor.position, trial)
        return jnp.maximum(0.0, self.margin - clearance)[:, None]


def clearance_at(
    position: Float[Array | np.ndarray, "*axes time space"], trial: Trial
) -> Float[Array, "*axes time"]:
    """Return how far each position is from the edge of the obstacle, in m; infinite where there is none."""
    center, radius = (trial.inputs[name][..., :1, :] for name in ("obstacle", "obstacle radius"))
    distance = EuclideanDistance()(position - center)
    return jnp.where(radius[..., 0] > 0, distance - radius[..., 0], jnp.inf)
