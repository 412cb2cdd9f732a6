"""Whether units prefer the same direction in two epochs."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from popsim.analysis.arrays import AnyArray, finite_float64


class PreferredDirectionChange(NamedTuple):
    """How far the preferred directions of units turned.

    - `angle`: for each unit, in rad from -pi to pi; positive where it turned anticlockwise.
    - `stability`: the mean cosine of the angles over the units that count: 1 where all stay, 0 where the two
        epochs have nothing to do with one another, -1 where all turn round. NaN where none counts.
    """

    angle: Float[np.ndarray, "*axes unit"]
    stability: Float[np.ndarray, "*axes"]


def preferred_direction_change(
    before: Float[AnyArray, "*axes unit"],
    after: Float[AnyArray, "*axes unit"],
    *,
    tuned: Bool[AnyArray, "*axes unit"] | None = None,
) -> PreferredDirectionChange:
    """How far the preferred directions of units turned from one epoch to another.

    **Arguments:**

    - `before`, `after`: preferred directions in rad, as `cosine_tuning` gives them.
    - `tuned`: the units that count for `stability`, such as those whose cosine explains half of the variance;
        all by default.

    **Raises:** `ValueError` if the shapes differ or a number is not finite.
    """
    first, second = finite_float64("before", before), finite_float64("after", after)
    counts = np.ones(first.shape, bool) if tuned is None else np.asarray(tuned)
    if not first.shape == second.shape == counts.shape:
        raise ValueError(
            "`before`, `after` and `tuned` must have the same shape, "
            f"got {first.shape}, {second.shape} and {counts.shape}."
        )
    angle = np.angle(np.exp(1j * (second - first)))
    n_units = counts.sum(axis=-1)
    total = np.sum(np.where(counts, np.cos(angle), 0.0), axis=-1)
    return PreferredDirectionChange(angle, np.asarray(total / np.where(n_units > 0, n_units, np.nan)))
