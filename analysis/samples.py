"""Activity as samples of units: trials and times on one axis, less the mean of each unit over them."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64

ROUNDING = 1e-6
"""The share of the size of the activity below which a singular value may be rounding: networks are run in
single precision, whose rounding is at most 6e-8 of each number, and so of the size of all."""


def centred_samples(name: str, activity: AnyArray) -> Float[np.ndarray, "sample unit"]:
    """The samples of one member.

    **Arguments:**

    - `name`: of the argument, for the error.
    - `activity`: with axes (sample..., unit), such as (trial, time, unit).

    **Raises:** `ValueError` if there are no two samples, or no unit whose activity varies.
    """
    values = finite_float64(name, activity)
    if values.ndim < 2 or values[..., 0].size < 2:
        raise ValueError(
            f"`{name}` must have axes (sample..., unit) with two samples or more, got shape {values.shape}."
        )
    samples = values.reshape(-1, values.shape[-1])
    centred = samples - samples.mean(axis=0)
    rounding = 1e-12 * float(np.abs(samples).max())
    if np.abs(centred).max() <= rounding:
        raise ValueError(f"`{name}` must vary over samples, got the same {samples[0]} in all.")
    return centred


def centred_samples_of_members(
    activity: Float[np.ndarray, "member trial time unit"],
) -> Float[np.ndarray, "member sample unit"]:
    """The samples of each member."""
    samples = activity.reshape(activity.shape[0], -1, activity.shape[-1])
    return samples - samples.mean(axis=1, keepdims=True)


def paired_samples(
    first: AnyArray, second: AnyArray
) -> tuple[Float[np.ndarray, "sample unit"], Float[np.ndarray, "sample other"]]:
    """The centred samples of two members that received the same trials.

    **Raises:** `ValueError` as `centred_samples`, or if the axes before the last are not as long.
    """
    if first.shape[:-1] != second.shape[:-1]:
        raise ValueError(
            "`first` and `second` must have the same samples, all axes but the last, "
            f"got shapes {first.shape} and {second.shape}."
        )
    return centred_samples("first", first), centred_samples("second", second)


def least_singular_value(activity: AnyArray) -> float:
    """The least singular value of one member's centred samples that is not taken for rounding.

    `ROUNDING` times the root of the sum of squares of the activity, its mean included, since a number is
    rounded in proportion to its size. A dimension below it has less than 1e-12 of that sum.

    **Arguments:**

    - `activity`: as it was recorded, with axes (sample..., unit).
    """
    return ROUNDING * float(np.linalg.norm(np.asarray(activity, np.float64).reshape(-1)))
