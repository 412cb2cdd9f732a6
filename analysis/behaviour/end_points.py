"""How movements to one place scatter where they end."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


class EndPointEllipse(NamedTuple):
    """Where the next movement ends with a probability, if end points are normally distributed.

    - `center`: the mean end point, in m.
    - `covariance`: of the end points, in m², divided by the number of trials less one.
    - `semi_axes`: half the long and half the short axis, in m.
    - `angle`: of the long axis from the first coordinate, counter-clockwise, in rad from 0 to pi.
    - `area`: in m².
    """

    center: Float[np.ndarray, "*axes 2"]
    covariance: Float[np.ndarray, "*axes 2 2"]
    semi_axes: Float[np.ndarray, "*axes 2"]
    angle: Float[np.ndarray, "*axes"]
    area: Float[np.ndarray, "*axes"]


def end_point_ellipse(
    end_points: Float[AnyArray, "*axes trial 2"], *, coverage: float = 0.95
) -> EndPointEllipse:
    """The ellipse in which a further movement to the same target ends, with a probability.

    The unit of replication is the trial: the ellipse says where the next movement ends, not how sure its
    center is. It is the prediction ellipse of a normal distribution: half its axes are sqrt(k l_i), with l_i
    the eigenvalues of the covariance and, of n trials,

        k = 2 (n² - 1) / (n (n - 2)) F

    with F the quantile `coverage` of Fisher's distribution with 2 and n - 2 degrees of freedom (Hotelling's
    T² of a further point; cited from memory), so k = (n² - 1) / n ((1 - coverage)^(-2 / (n - 2)) - 1). Of
    many trials it holds this share of them, and k is -2 ln(1 - coverage). Its area is pi k sqrt(l_1 l_2).

    **Arguments:**

    - `end_points`: of the hand or the cursor, in m, of repeated trials to one target.
    - `coverage`: the probability that the next end point is within, above 0 and below 1.

    **Raises:** `ValueError` if there are fewer than three trials, `end_points` is not finite, or `coverage`
    is not above 0 and below 1.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"`coverage` must be above 0 and below 1, got {coverage}.")
    points = finite_float64("end_points", end_points)
    n_trials = points.shape[-2]
    if n_trials < 3:
        raise ValueError(f"`end_points` must be of three trials or more, got {n_trials}.")
    center = points.mean(axis=-2)
    away = points - center[..., None, :]
    covariance = np.einsum("...ti,...tj->...ij", away, away) / (n_trials - 1)
    variances, directions = np.linalg.eigh(covariance)
    squared_reach = (n_trials - 1 / n_trials) * np.expm1(-2 * np.log1p(-coverage) / (n_trials - 2))
    semi_axes = np.sqrt(squared_reach * np.maximum(variances[..., ::-1], 0.0))
    long_axis = directions[..., :, 1]
    angle = np.asarray(np.mod(np.arctan2(long_axis[..., 1], long_axis[..., 0]), np.pi))
    area = np.asarray(np.pi * semi_axes.prod(axis=-1))
    return EndPointEllipse(center, covariance, semi_axes, angle, area)
