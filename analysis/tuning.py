"""How activity depends on the direction of a movement."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim.checks import is_traced


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

    **Raises:** `ValueError` if the trials of both are not equally many, or have fewer than three directions.
    """
    if activity.shape[-2] != direction.shape[0] or direction.shape[0] < 3:
        raise ValueError(
            "`activity` and `direction` must have the same three trials or more, "
            f"got {activity.shape[-2]} and {direction.shape[0]}."
        )
    if not is_traced(direction) and np.linalg.matrix_rank(_design(np.asarray(direction))) < 3:
        raise ValueError(f"`direction` must be three different directions or more, got {direction} rad.")
    design = _design(direction)
    weights = jnp.einsum("kt,...tu->...ku", jnp.linalg.pinv(design), activity)
    residual = activity - jnp.einsum("tk,...ku->...tu", design, weights)
    varied = jnp.var(activity, axis=-2)
    explained = 1 - jnp.var(residual, axis=-2) / jnp.where(varied > 0, varied, jnp.nan)
    baseline, along, across = jnp.moveaxis(weights, -2, 0)
    return CosineTuning(baseline, jnp.hypot(along, across), jnp.arctan2(across, along), explained)


def _design(direction: Any) -> Any:
    """What is fitted: a constant, the cosine and the sine; [trial, 3]."""
    numpy = jnp if isinstance(direction, jax.Array) else np
    return numpy.stack([numpy.ones_like(direction), numpy.cos(direction), numpy.sin(direction)], axis=1)
