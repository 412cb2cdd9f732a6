"""Which axes of an array are trials and time."""

import jax.numpy as jnp
from jaxtyping import Array, Shaped

from popsim.trial import Trial, n_trials


def trial_time_last(
    values: Shaped[Array, "..."], trials: Trial, time_axis: int
) -> Shaped[Array, "*axes trial time"]:
    """The axes of trials and time moved to the end; trials are the axis before time.

    **Raises:** `ValueError` if these axes are not as long as there are trials and time steps.
    """
    wanted = (n_trials(trials), trials.timeline.n_steps)
    axis = time_axis % values.ndim if -values.ndim <= time_axis < values.ndim else 0
    found = values.shape[max(axis - 1, 0) : axis + 1]
    if found != wanted:
        raise ValueError(
            f"`values` must have {wanted[0]} trials and {wanted[1]} time steps before and at `time_axis`, "
            f"{time_axis}, got shape {values.shape}."
        )
    return jnp.moveaxis(values, (axis - 1, axis), (-2, -1))


def time_back(values: Shaped[Array, "*axes trial time"], time_axis: int) -> Shaped[Array, "..."]:
    """Undoes `trial_time_last`."""
    axis = time_axis % values.ndim
    return jnp.moveaxis(values, (-2, -1), (axis - 1, axis))


def trial_back(values: Shaped[Array, "*axes trial"], time_axis: int) -> Shaped[Array, "..."]:
    """Undoes `trial_time_last` where time is gone."""
    return jnp.moveaxis(values, -1, time_axis % (values.ndim + 1) - 1)
