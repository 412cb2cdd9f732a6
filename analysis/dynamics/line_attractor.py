"""Whether slow points lie along a curve on which states stay, and to which they return from beside it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float, Int

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.dynamics.modes import modes
from popsim.analysis.population.principal_components import principal_components
from popsim.checks import check_positive


class SlowDirections(NamedTuple):
    """At each of some points that may form a line attractor.

    - `n_slow`: how many modes are slow, by their time constants; 1 on a line attractor.
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
    dt: float,
    least_time_constant: float,
    least_growth_time: float | None = None,
    n_neighbours: int = 4,
) -> SlowDirections:
    """The slowest mode at each of the points of one member, and whether the points lie along it.

    The curve at a point is the first principal component of the nearest points around it. After Mante et
    al. 2013, Nature 503:78 (cited from memory).

    **Arguments:**

    - `states`, `jacobian`: of fixed or slow points of one member.
    - `dt`: the time step in s, of which the Jacobians are.
    - `least_time_constant`: in s; a mode that decays more slowly, to 1/e in this time or later, is slow. On a
        line attractor it has to be far above the time constant of the units.
    - `least_growth_time`: in s; a mode that grows is slow if it takes this time or longer to grow by e. None
        for `least_time_constant`. Absolute eigenvalues from 0.97 to 1.01 are -dt / log(0.97) and
        dt / log(1.01).
    - `n_neighbours`: from how many points beside each the curve is found.

    **Raises:** `ValueError` if the points are not more than the neighbours or not as many in both arrays, or
    a time is not positive.
    """
    points, matrices = finite_float64("states", states), finite_float64("jacobian", jacobian)
    if matrices.shape != (*points.shape, points.shape[-1]):
        raise ValueError(f"`jacobian` must be that of {points.shape} states, got shape {matrices.shape}.")
    if not 2 <= n_neighbours < len(points):
        raise ValueError(f"`n_neighbours` must be 2 to {len(points) - 1}, got {n_neighbours}.")
    check_positive("dt", dt)
    growth_time = least_time_constant if least_growth_time is None else least_growth_time
    check_positive("least_time_constant", least_time_constant)
    check_positive("least_growth_time", growth_time)
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
        np.count_nonzero(
            (size >= np.exp(-dt / least_time_constant)) & (size <= np.exp(dt / growth_time)), axis=-1
        ),
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
    return principal_components(nearest[:, None], n_components=1).components[:, 0]
