"""Which of many points are one."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class DistinctPoints(NamedTuple):
    """Points that are further from each other than a radius.

    - `row`: of the points given, which stands for each: the slowest.
    - `n_merged`: how many points each stands for.
    """

    row: Int[np.ndarray, " distinct"]
    n_merged: Int[np.ndarray, " distinct"]


def distinct_points(
    states: Float[np.ndarray, "point state"], speed: Float[np.ndarray, " point"], radius: float
) -> DistinctPoints:
    """One point after the other, the slowest first, takes all that are left within a radius of it.

    **Arguments:**

    - `states`: the points.
    - `speed`: of each.
    - `radius`: in the unit of the states.
    """
    left = np.argsort(speed, kind="stable")
    rows, counts = [], []
    while left.size:
        is_near = np.linalg.norm(states[left] - states[left[0]], axis=-1) <= radius
        rows.append(left[0])
        counts.append(np.count_nonzero(is_near))
        is_near[0] = True
        left = left[~is_near]
    return DistinctPoints(np.asarray(rows, int), np.asarray(counts, int))
