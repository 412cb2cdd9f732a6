"""How much of a force field is expected."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray


def adaptation_index(
    channel_force: Float[AnyArray, "*axes trial time"], ideal_force: Float[AnyArray, "*axes trial time"]
) -> Float[np.ndarray, "*axes trial"]:
    """The slope of the regression over time of the force in a channel on the force that would be right.

    0 where nothing of the field is expected, 1 where all of it is. The regression is by least squares and
    has an intercept, so that a steady push against a wall does not count: slope = cov(ideal, measured) /
    var(ideal). The adaptation coefficient of Smith, Ghazizadeh & Shadmehr 2006, PLoS Biol 4:e179 (cited
    from memory). NaN where the ideal force does not vary.

    **Arguments:**

    - `channel_force`: the function of that name, in N.
    - `ideal_force`: see `ideal_channel_force`, in N.

    Steps at which one of both is NaN, as `in_window` leaves them, do not count.

    **Raises:** `ValueError` if a force is infinite.
    """
    measured, ideal = (np.asarray(force, np.float64) for force in (channel_force, ideal_force))
    for name, force in (("channel_force", measured), ("ideal_force", ideal)):
        if np.any(np.isinf(force)):
            raise ValueError(f"`{name}` must be numbers of newtons or NaN, got infinite ones.")
    counts = ~np.isnan(measured) & ~np.isnan(ideal)
    n_steps = np.maximum(counts.sum(axis=-1, keepdims=True), 1)

    def centered(force: np.ndarray) -> np.ndarray:
        known = np.where(counts, force, 0.0)
        return np.where(counts, known - known.sum(axis=-1, keepdims=True) / n_steps, 0.0)

    along, own = centered(ideal), centered(measured)
    varied = np.sum(along**2, axis=-1)
    return np.sum(along * own, axis=-1) / np.where(varied > 0, varied, np.nan)
