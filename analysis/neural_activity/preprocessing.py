"""Normalization of activity, and averages over conditions."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float

from popsim._shared.checks import check_non_negative
from popsim.analysis._arrays import Activity, Labels, as_activity, as_float64, check_axes, unique_labels

__all__ = ["soft_normalize", "subtract_condition_mean", "average_by_factors", "marginalize"]


def soft_normalize(activity: Activity, *, constant: float) -> Float[np.ndarray, "member trial time unit"]:
    """Divide the activity of each unit by its range over trials and times plus a constant.

    After Churchland et al. 2012, Nature 487:51, whose constant of 5 spikes/s keeps units with weak responses
    small; for a range of about 1, about 0.1 does the same. 0 gives every unit the range 1.
    """
    values = as_activity("activity", activity)
    check_non_negative("constant", constant)
    scale = np.ptp(values, axis=(1, 2), keepdims=True) + constant
    if not np.all(scale > 0):
        raise ValueError(f"`constant` must be above zero for units that never change, got {constant}.")
    return values / scale


def subtract_condition_mean(activity: Activity) -> Float[np.ndarray, "member trial time unit"]:
    """Subtract the mean over trials at each time, which leaves the differences between conditions."""
    values = as_activity("activity", activity)
    if values.shape[1] < 2:
        raise ValueError(f"`activity` must have two trials or more, got {values.shape[1]}.")
    return values - values.mean(axis=1, keepdims=True)


def average_by_factors(
    activity: Activity, factors: Mapping[str, Labels]
) -> Float[np.ndarray, "member *levels time unit"]:
    """Return the mean activity for each combination of factor levels.

    **Arguments:**

    - `factors`: level of each trial per factor, such as `{"direction": trials.conditions["direction"]}`.

    **Returns:** an array with one axis per factor, in the given order, levels ascending. Numbers that differ
        only by rounding are one level.
    """
    values = as_activity("activity", activity)
    cells = []
    for name, levels in factors.items():
        check_axes(f"factors[{name!r}]", levels, f"trial={values.shape[1]}")
        distinct, cell = unique_labels(levels)
        if distinct.size < 2:
            raise ValueError(f"`factors[{name!r}]` must have two levels or more, got {distinct.size}.")
        cells.append((distinct.size, cell))
    shape = tuple(size for size, _ in cells)
    cell = np.ravel_multi_index([index for _, index in cells], shape)
    count = np.bincount(cell, minlength=int(np.prod(shape)))
    if n_missing := int(np.count_nonzero(count == 0)):
        raise ValueError(
            f"`factors` must come in all combinations of their levels, got {n_missing} of {count.size} "
            "in no trial."
        )
    mean = np.stack([values[:, cell == index].mean(axis=1) for index in range(count.size)], axis=1)
    return mean.reshape(values.shape[0], *shape, *values.shape[2:])


def marginalize(
    mean: Float[np.ndarray, "member *levels time unit"], names: Sequence[str]
) -> dict[str, Float[np.ndarray, "member *levels time unit"]]:
    """Split activity into a part that depends on time alone, and one for time with each set of factors.

    The parts are uncorrelated and sum to the activity minus the mean of each unit. A factor and its
    interaction with time are one part. After Kobak et al. 2016, eLife 5:e10989; the recursion is that of
    `_marginalize` in their package dPCA.

    **Arguments:**

    - `mean`: from `average_by_factors`.

    **Returns:** the parts under "time", then "direction", then "direction x distance", and so on.
    """
    mean = as_float64("mean", mean)
    if len(names) != mean.ndim - 3:
        raise ValueError(
            f"`names` must be one for each of {mean.ndim - 3} axes of levels, got {list(names)}."
        )
    centered = mean - mean.mean(axis=tuple(range(1, mean.ndim - 1)), keepdims=True)
    axes = range(1, len(names) + 1)
    parts: dict[tuple[int, ...], np.ndarray] = {}
    for size in range(len(names) + 1):
        for factor_axes in combinations(axes, size):
            part = centered.mean(axis=tuple(set(axes) - set(factor_axes)), keepdims=True)
            for lower, smaller in parts.items():
                if set(lower) < set(factor_axes):
                    part = part - smaller
            parts[factor_axes] = part
    return {
        " x ".join(names[axis - 1] for axis in factor_axes) or "time": np.broadcast_to(part, centered.shape)
        for factor_axes, part in parts.items()
    }
