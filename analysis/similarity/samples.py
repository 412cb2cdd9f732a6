"""Activity as samples of units: what all comparisons of two members start from."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


def centred_samples(name: str, activity: AnyArray) -> Float[np.ndarray, "sample unit"]:
    """Trials and time steps on one axis of samples, less the mean over samples.

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
