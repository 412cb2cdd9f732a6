"""Activity in which strong units do not outweigh the others, or without what all conditions share."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.population.activity import population_activity
from popsim.checks import check_non_negative


def soft_normalized(
    activity: Float[AnyArray, "member trial time unit"], *, constant: float
) -> Float[np.ndarray, "member trial time unit"]:
    """Activity of each unit divided by its range over trials and times plus a constant.

    After Churchland et al. 2012, Nature 487:51 (cited from memory). There the constant is 5 spikes/s, so that
    units that hardly respond stay small. For the units of a network, whose range is about 1, something like
    0.1 does the same; 0 gives every unit the range 1.

    **Arguments:**

    - `activity`: of the units.
    - `constant`: in the unit of the activity, zero or more.

    **Raises:** `ValueError` if the activity has other axes or is not finite, `constant` is negative, or it is
        zero and a unit never changes.
    """
    values = population_activity("activity", activity)
    check_non_negative("constant", constant)
    scale = np.ptp(values, axis=(1, 2), keepdims=True) + constant
    if n_still := int(np.count_nonzero(scale == 0)):
        raise ValueError(
            f"`constant` must be above zero where a unit never changes, got 0 and {n_still} such units."
        )
    return values / scale


def condition_mean_subtracted(
    activity: Float[AnyArray, "member trial time unit"],
) -> Float[np.ndarray, "member trial time unit"]:
    """Activity minus its mean over trials at each time: what tells the conditions apart.

    **Arguments:**

    - `activity`: of the units; each trial is a condition.

    **Raises:** `ValueError` if the activity has other axes, is not finite, or has one trial only.
    """
    values = population_activity("activity", activity)
    if values.shape[1] < 2:
        raise ValueError(f"`activity` must have two trials or more, got {values.shape[1]}.")
    return values - values.mean(axis=1, keepdims=True)
