"""The activity that analyses of a population take, with the axes (member, trial, time, unit)."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


def population_activity(name: str, values: AnyArray) -> Float[np.ndarray, "member trial time unit"]:
    """The activity in float64.

    **Arguments:**

    - `name`: of the argument, for the error.
    - `values`: such as `states.network.hidden` of an ensemble.

    **Raises:** `ValueError` if it has other axes, is empty or is not finite.
    """
    activity = finite_float64(name, values)
    if activity.ndim != 4:
        raise ValueError(
            f"`{name}` must have the axes (member, trial, time, unit), got shape {activity.shape}."
        )
    return activity
