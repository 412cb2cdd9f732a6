"""Whether slow points lie along a curve on which states stay, and to which they return from beside it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float, Int

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.dynamics.modes import modes


class SlowDirections(NamedTuple):
    """At each of some points that may form a line attractor.

    - `n_slow`: how many modes have an absolute eigenvalue in the range of slow ones; 1 on a line attractor.
    - `eigenvalue`: of the slowest mode, that nearest to 1.
    - `direction`: of that mode, of length one; signs are such that all point along one axis.
    - `selection`: the vector that reads from a small change of the state how much it moves along it.
    - `alignment`: |cosine| between the direction and the curve through the points; 1 on a line attractor.
    - `next_largest`: the largest absolute eigenvalue of all other modes: how far deviations from the curve
        shrink in a time step; 0 if there is no other.
    """

    n_slow: Int[np.ndarray, " point"]
    eigenvalue: Complex[np.ndarray, " point"]
    direction: Float[np.ndarray, "point state"]
    selection: Float[np.ndarray, "point state"]
    alignment: Float[np.ndarray, " point"]
    next_largest: Float[np.ndarray, " point"]


def slow_directions(
    states: Float[AnyArray, "point state"],
    jacobian: Float[AnyArray, "point state state"],
    *,
    slowest: float = 0.97,
    fastest: float = 1.01,
    n_neighbours: int = 4,
) -> SlowDirections:
    """The slowest mode at each of the points of one member, and whether the points lie along it.

    The curve at a point is the first principal component of the nearest points around it. After Mante et
    al. 2013, Nature 503:78 (cited from memory).

    **Arguments:**

    - `states`, `jacobian`: of fixed or slow points of one member.
    - `slowest`, `fastest`: between which absolute eigenvalues a mode counts as slow.
    - `n_neighbours`: from how many points beside each the curve is found.

    **Raises:** `ValueError` if the points are not more than the neighbours or not as many in both arrays, or
    the range is empty.
    """
    points, matrices = finite_float64("states", states), finite_float64("jacobian", jacobian)
    if matrices.shape != (*points.shape, points.shape[-1]):
        raise ValueError(f"`jacobian` must be that of {points.shape} states, got shape {matrices.shape}.")
    if not 2 <= n_neighbours < len(points):
        raise ValueError(f"`n_neighbours` must be 2 to {len(points) - 1}, got {n_neighbours}.")
    if not slowest < fastest:
        raise ValueError(f"`slowest` must be below `fastest`, {fastest}, got {slowest}.")
    found, row = modes(matrices), np.arange(len(points))
    size = np.abs(found.eigenvalue)
    at = np.argmin(np.abs(found.eigenvalue - 1), axis=-1)
    direction, selection = found.direction[row, :, at], found.selection[row, at]
    # An eigenvector may be turned by any phase; that of a real mode is turned back to the real numbers.
    phase = np.exp(-0.5j * np.angle(np.sum(direction**2, axis=-1, keepdims=True)))
    length = np.linalg.norm((direction * phase).real, axis=-1, keepdims=True)
    real_direction, real_selection = (direction * phase).real / length, (selection / phase).real * length
    tangent = _tangents(points, n_neighbours)
    common = np.linalg.svd(real_direction, full_matrices=False)[2][0]
    sign = np.where(real_direction @ common < 0, -1.0, 1.0)[:, None]
    others = np.where(np.arange(size.shape[-1]) == at[:, None], 0.0, size)
    return SlowDirections(
        np.count_nonzero((size >= slowest) & (size <= fastest), axis=-1),
        found.eigenvalue[row, at],
        sign * real_direction,
        sign * real_selection,
        np.abs(np.sum(real_direction * tangent, axis=-1)),
        others.max(axis=-1),
    )


def _tangents(points: Float[np.ndarray, "point state"], n: int) -> Float[np.ndarray, "point state"]:
    """The direction in which each point and its n nearest neighbours vary most."""
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    nearest = points[np.argsort(distance, axis=1)[:, : n + 1]]
    return np.linalg.svd(nearest - nearest.mean(axis=1, keepdims=True))[2][:, 0]
