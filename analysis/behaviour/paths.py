"""How long, how straight and how bent the way of the hand was."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


def path_length(position: Float[AnyArray, "*axes time space"]) -> Float[np.ndarray, "*axes"]:
    """How long a path is, in m: the sum of the straight ways from each time step to the next.

    **Arguments:**

    - `position`: of the hand, in m; put the start before it if the way of the first step is to count.

    **Raises:** `ValueError` if `position` is not finite.
    """
    steps = np.diff(finite_float64("position", position), axis=-2)
    return np.asarray(np.linalg.norm(steps, axis=-1).sum(axis=-1))


def path_ratio(position: Float[AnyArray, "*axes time space"]) -> Float[np.ndarray, "*axes"]:
    """How much longer a path is than the straight way from its first to its last point: 1 if it is straight.

    NaN where both points are one.

    **Arguments:** as for `path_length`.

    **Raises:** as `path_length`.
    """
    points = finite_float64("position", position)
    distance = np.linalg.norm(points[..., -1, :] - points[..., 0, :], axis=-1)
    return np.asarray(path_length(points) / np.where(distance > 0, distance, np.nan))


def curvature(position: Float[AnyArray, "*axes time 2"]) -> Float[np.ndarray, "*axes time"]:
    """How bent the path is at each time step, in 1/m; positive where it turns counter-clockwise, to the left.

    One over the radius of the circle through the point and the two beside it (Menger),

        c = 2 (a x b) / (|a| |b| |a + b|)

    with a and b the ways from the point before and to the point after. It needs no derivatives, and is exact
    on a circle. NaN at the first and the last step, and where two of the three points are one. A hand that
    rests or goes slowly has a large curvature of no meaning: leave out what is before the onset and after the
    offset of the movement, and take the median over time, or `maximum_perpendicular_deviation` instead.

    **Arguments:**

    - `position`: of the hand in the plane, in m.

    **Raises:** `ValueError` if `position` is not finite, or not in the plane.
    """
    points = finite_float64("position", position)
    if points.shape[-1] != 2:
        raise ValueError(f"`position` must have a last axis of x and y, got shape {points.shape}.")
    steps = np.diff(points, axis=-2)
    before, after = steps[..., :-1, :], steps[..., 1:, :]
    turned = before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]
    lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
    lengths = lengths * np.linalg.norm(before + after, axis=-1)
    curved = np.full(points.shape[:-1], np.nan)
    curved[..., 1:-1] = 2 * turned / np.where(lengths > 0, lengths, np.nan)
    return curved
