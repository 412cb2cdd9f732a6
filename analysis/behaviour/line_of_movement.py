"""The straight line from the start of a reach to its target, and what is beside it."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


def movement_directions(
    starts: Float[AnyArray, "trial 2"], targets: Float[AnyArray, "trial 2"]
) -> Float[np.ndarray, "trial 2"]:
    """The unit vectors from the starts to the targets (both m).

    **Raises:** `ValueError` if a number is not finite, a target is at its start, or they are not one place in
    the plane for each trial.
    """
    ends, begins = finite_float64("targets", targets), finite_float64("starts", starts)
    for name, places in (("targets", ends), ("starts", begins)):
        if places.ndim != 2 or places.shape[1] != 2 or len(places) != len(begins):
            raise ValueError(
                f"`{name}` must be a place in the plane for each trial, (trial, 2), such as "
                f"`targets.position[:, -1]`; got shape {places.shape}."
            )
    way = ends - begins
    distance = np.linalg.norm(way, axis=-1, keepdims=True)
    if not np.all(distance > 0):
        at_start = np.flatnonzero(distance[:, 0] == 0).tolist()
        raise ValueError(f"`targets` must be away from `starts`, got one place in trials {at_start}.")
    return way / distance


def beside(
    vectors: Float[np.ndarray, "*axes trial time 2"], along: Float[np.ndarray, "trial 2"]
) -> Float[np.ndarray, "*axes trial time"]:
    """How far vectors lead to the left of the line of movement: the cross product, in their unit."""
    return along[:, None, 0] * vectors[..., 1] - along[:, None, 1] * vectors[..., 0]
