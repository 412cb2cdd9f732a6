"""How activity depends on the direction of a movement."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.trial_labels import check_trials


class CosineTuning(NamedTuple):
    """Activity as baseline + depth cos(direction - preferred), fitted by least squares.

    - `baseline`, `depth`: in the unit of the activity; `depth` is not negative.
    - `preferred`: the direction of the most activity, in rad from -pi to pi.
    - `explained`: the share of the variance over trials that the cosine explains, from 0 to 1; NaN
        where nothing varies.
    """

    baseline: Float[np.ndarray, "*axes unit"]
    depth: Float[np.ndarray, "*axes unit"]
    preferred: Float[np.ndarray, "*axes unit"]
    explained: Float[np.ndarray, "*axes unit"]


def cosine_tuning(
    activity: Float[AnyArray, "*axes trial unit"], direction: Float[AnyArray, " trial"]
) -> CosineTuning:
    """The preferred directions of units or muscles.

    After Georgopoulos, Kalaska, Caminiti & Massey 1982, J Neurosci 2:1527-1537 (cited from memory).

    **Arguments:**

    - `activity`: of each unit in each trial, such as the mean over the movement.
    - `direction`: of each trial, in rad; at least three different ones.

    **Raises:** `ValueError` if the trials of both are not equally many, or have fewer than three directions.
    """
    values, angle = finite_float64("activity", activity), finite_float64("direction", direction)
    check_trials("direction", angle, values.shape[-2])
    design = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)], axis=1)
    if np.linalg.matrix_rank(design, tol=1e-6) < 3:
        raise ValueError(f"`direction` must be three different directions or more, got {angle} rad.")
    weights = np.linalg.pinv(design) @ values
    varied = values.var(axis=-2)
    explained = 1 - (values - design @ weights).var(axis=-2) / np.where(varied > 0, varied, np.nan)
    baseline, along, across = np.moveaxis(weights, -2, 0)
    return CosineTuning(baseline, np.hypot(along, across), np.arctan2(across, along), explained)
