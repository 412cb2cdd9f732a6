"""How activity depends on the direction of a movement."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class CosineTuning(NamedTuple):
    """Activity as baseline + depth cos(direction - preferred), fitted by least squares.

    - `baseline`, `depth`: in the unit of the activity; `depth` is not negative.
    - `preferred`: the direction of the most activity, in rad from -pi to pi.
    - `explained`: the share of the variance over directions that the cosine explains, from 0 to 1; NaN
        where nothing varies.
    """

    baseline: Float[Array, "*axes unit"]
    depth: Float[Array, "*axes unit"]
    preferred: Float[Array, "*axes unit"]
    explained: Float[Array, "*axes unit"]


def cosine_tuning(
    activity: Float[Array, "*axes trial unit"], direction: Float[Array, " trial"]
) -> CosineTuning:
    """The preferred directions of units or muscles.

    After Georgopoulos, Kalaska, Caminiti & Massey 1982, J Neurosci 2:1527-1537 (cited from memory).

    **Arguments:**

    - `activity`: of each unit in each trial, such as the mean over the movement.
    - `direction`: of each trial, in rad; at least three different ones.

    **Raises:** `ValueError` if the trials of both are not equally many, or fewer than three.
    """
    if activity.shape[-2] != direction.shape[0] or direction.shape[0] < 3:
        raise ValueError(
            "`activity` and `direction` must have the same three trials or more, "
            f"got {activity.shape[-2]} and {direction.shape[0]}."
        )
    design = jnp.stack([jnp.ones_like(direction), jnp.cos(direction), jnp.sin(direction)], axis=1)
    weights = jnp.einsum("kt,...tu->...ku", jnp.linalg.pinv(design), activity)
    residual = activity - jnp.einsum("tk,...ku->...tu", design, weights)
    varied = jnp.var(activity, axis=-2)
    explained = 1 - jnp.var(residual, axis=-2) / jnp.where(varied > 0, varied, jnp.nan)
    baseline, along, across = jnp.moveaxis(weights, -2, 0)
    return CosineTuning(baseline, jnp.hypot(along, across), jnp.arctan2(across, along), explained)
