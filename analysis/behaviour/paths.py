"""Shape and direction of movements."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim._shared.checks import check_time_step
from popsim.analysis._arrays import AnyArray, Paths, Points, as_float64, check_between_0_and_1, finite_float64

__all__ = [
    "path_length",
    "path_ratio",
    "curvature",
    "perpendicular_deviation",
    "maximum_perpendicular_deviation",
    "initial_velocity_angle",
    "initial_direction_error",
    "EndPointEllipse",
    "end_point_ellipse",
]


def path_length(position: Float[AnyArray, "*axes time space"]) -> Float[np.ndarray, "*axes"]:
    """Return the length of a path, in m: the sum of the distances between successive time steps.

    **Arguments:**

    - `position`: of the hand, in m; prepend the start to include the distance covered in the first step.
    """
    steps = np.diff(finite_float64("position", position), axis=-2)
    return np.asarray(np.linalg.norm(steps, axis=-1).sum(axis=-1))


def path_ratio(position: Float[AnyArray, "*axes time space"]) -> Float[np.ndarray, "*axes"]:
    """Return the length of a path divided by the distance between its ends: 1 if it is straight.

    NaN where the ends coincide.

    **Arguments:** as for `path_length`.
    """
    points = finite_float64("position", position)
    distance = np.linalg.norm(points[..., -1, :] - points[..., 0, :], axis=-1)
    return np.asarray(path_length(points) / np.where(distance > 0, distance, np.nan))


def curvature(position: Float[AnyArray, "*axes time 2"]) -> Float[np.ndarray, "*axes time"]:
    """Return the curvature of the path at each time step, in 1/m; positive where it turns counter-clockwise.

    It is the inverse radius of the circle through a point and its two neighbours (Menger curvature),

        c = 2 (a x b) / (|a| |b| |a + b|)

    with a and b the vectors from the previous point and to the next point. NaN at the ends, and where two of
    the three points coincide; meaningless where the hand is slow or at rest.
    """
    points = finite_float64("position", position, "... time space=2")
    steps = np.diff(points, axis=-2)
    before, after = steps[..., :-1, :], steps[..., 1:, :]
    turned = before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]
    lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
    lengths = lengths * np.linalg.norm(before + after, axis=-1)
    curved = np.full(points.shape[:-1], np.nan)
    curved[..., 1:-1] = 2 * turned / np.where(lengths > 0, lengths, np.nan)
    return curved


def movement_directions(starts: Points, targets: Points) -> Float[np.ndarray, "trial 2"]:
    """Return the unit vectors from the starts to the targets (both in m); NaN where they are one place."""
    ends = finite_float64("targets", targets, "trial space=2")
    way = ends - finite_float64("starts", starts, f"trial={len(ends)} space=2")
    distance = np.linalg.norm(way, axis=-1, keepdims=True)
    return way / np.where(distance > 0, distance, np.nan)


def leftward_component(
    vectors: Float[np.ndarray, "*axes trial time 2"], along: Float[np.ndarray, "trial 2"]
) -> Float[np.ndarray, "*axes trial time"]:
    """Return the component of vectors to the left of the movement direction (a cross product)."""
    return along[:, None, 0] * vectors[..., 1] - along[:, None, 1] * vectors[..., 0]


def perpendicular_deviation(
    position: Paths, starts: Points, targets: Points
) -> Float[np.ndarray, "*axes trial time"]:
    """Return the signed distance of the hand from the line from start to target at each time step, in m.

    Positive to the left of the movement direction; a `CurlField` with b > 0 pushes to the right.
    """
    along = movement_directions(starts, targets)
    away = finite_float64("position", position) - finite_float64("starts", starts)[:, None]
    return leftward_component(away, along)


def maximum_perpendicular_deviation(
    position: Paths, starts: Points, targets: Points
) -> Float[np.ndarray, "*axes trial"]:
    """Return the `perpendicular_deviation` of largest magnitude in each trial, in m, with its sign.

    **Arguments:** as for `perpendicular_deviation`.
    """
    deviation = perpendicular_deviation(position, starts, targets)
    largest = np.argmax(np.abs(deviation), axis=-1, keepdims=True)
    return np.take_along_axis(deviation, largest, axis=-1)[..., 0]


def initial_velocity_angle(
    velocity: Paths, starts: Points, targets: Points, times: Float[AnyArray, "*#axes #trial"], *, dt: float
) -> Float[np.ndarray, "*axes trial"]:
    """Return the angle from the target direction to the velocity at a given time, in rad from -pi to pi.

    Positive to the left; interpolated linearly between steps. NaN where a time is NaN, or the hand at rest.

    **Arguments:**

    - `times`: one per trial, in s since its beginning, such as `peak_speed(speed, dt=dt).time`.
    """
    values = _at_times(finite_float64("velocity", velocity), times, dt)
    return _angle(values, movement_directions(starts, targets))


def initial_direction_error(
    position: Paths, starts: Points, targets: Points, times: Float[AnyArray, "*#axes #trial"], *, dt: float
) -> Float[np.ndarray, "*axes trial"]:
    """Return the angle between target and hand as seen from the start, in rad; positive to the left.

    NaN where a time is NaN, or the hand is still at the start.

    **Arguments:** as for `initial_velocity_angle`.
    """
    values = _at_times(finite_float64("position", position), times, dt)
    return _angle(values - finite_float64("starts", starts), movement_directions(starts, targets))


def _at_times(
    values: Float[np.ndarray, "*axes trial time 2"], times: Float[AnyArray, "*#axes #trial"], dt: float
) -> Float[np.ndarray, "*axes trial 2"]:
    check_time_step(dt)
    last = values.shape[-2]
    steps = np.broadcast_to(as_float64("times", times) / dt - 1, values.shape[:-2])
    if np.any((steps < -1e-6) | (steps > last - 1 + 1e-6)):
        raise ValueError(
            f"`times` must be from {dt:.4g} s to {last * dt:.4g} s, where the rows are, "
            f"got {np.nanmin(times):.4g} to {np.nanmax(times):.4g} s."
        )
    is_there = np.isfinite(steps)
    steps = np.clip(np.where(is_there, steps, 0.0), 0, last - 1)
    before = np.floor(steps).astype(int)
    after = np.minimum(before + 1, last - 1)
    fraction = (steps - before)[..., None]

    def at(step: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, step[..., None, None], axis=-2)[..., 0, :]

    between = (1 - fraction) * at(before) + fraction * at(after)
    return np.where(is_there[..., None], between, np.nan)


def _angle(
    vectors: Float[np.ndarray, "*axes trial 2"], along: Float[np.ndarray, "trial 2"]
) -> Float[np.ndarray, "*axes trial"]:
    leftward = leftward_component(vectors[..., None, :], along)[..., 0]
    forward = np.sum(along * vectors, axis=-1)
    return np.where(np.hypot(leftward, forward) > 0, np.arctan2(leftward, forward), np.nan)


class EndPointEllipse(NamedTuple):
    """A prediction ellipse for the next end point, under a normal distribution.

    - `center`: the mean end point, in m.
    - `covariance`: of the end points, in m², divided by the number of trials minus one.
    - `semi_axes`: the long and the short semi-axis, in m.
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
    """Return the ellipse that contains the next end point at the same target with a given probability.

    This is the prediction ellipse of a normal distribution, not a confidence region of the mean. The unit of
    replication is the trial. The semi-axes are sqrt(k l_i), with l_i the eigenvalues of the covariance and,
    for n trials,

        k = 2 (n² - 1) / (n (n - 2)) F = (n² - 1) / n ((1 - coverage)^(-2 / (n - 2)) - 1)

    with F the quantile `coverage` of the F distribution with 2 and n - 2 degrees of freedom (Hotelling's T²;
    as in R. Turner, R-help, 29 January 2013).

    **Arguments:**

    - `end_points`: of the hand or the cursor, in m, of repeated trials to one target.
    - `coverage`: the probability that the ellipse contains the next end point, above 0 and below 1.
    """
    check_between_0_and_1("coverage", coverage)
    points = finite_float64("end_points", end_points, "... trial space=2")
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
