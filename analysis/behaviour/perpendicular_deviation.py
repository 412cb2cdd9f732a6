"""How far the hand was from the straight line to its target, and on which side."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.behaviour.line_of_movement import beside, movement_directions


def perpendicular_deviation(
    position: Float[AnyArray, "*axes trial time 2"],
    starts: Float[AnyArray, "trial 2"],
    targets: Float[AnyArray, "trial 2"],
) -> Float[np.ndarray, "*axes trial time"]:
    """The distance of the hand from the line start-target at each time step, in m, with its sign.

    Positive to the left of the line as seen from the start, counter-clockwise of the movement. The line has
    no ends. A `CurlField` of b > 0 pushes to the right: first reaches in it deviate to the negative side.

    **Arguments:**

    - `position`: of the hand or the cursor in the plane, in m.
    - `starts`, `targets`: of the trials, in m.

    **Raises:** `ValueError` if a number is not finite, or a target is at its start.
    """
    along = movement_directions(starts, targets)
    away = finite_float64("position", position) - finite_float64("starts", starts)[:, None]
    return beside(away, along)


def maximum_perpendicular_deviation(
    position: Float[AnyArray, "*axes trial time 2"],
    starts: Float[AnyArray, "trial 2"],
    targets: Float[AnyArray, "trial 2"],
) -> Float[np.ndarray, "*axes trial"]:
    """The `perpendicular_deviation` of each trial where it is largest, in m, with its sign.

    **Arguments:** as there.

    **Raises:** as `perpendicular_deviation`.
    """
    deviation = perpendicular_deviation(position, starts, targets)
    largest = np.argmax(np.abs(deviation), axis=-1, keepdims=True)
    return np.take_along_axis(deviation, largest, axis=-1)[..., 0]
