"""In which direction a reach set out, from that of its target."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.behaviour.line_of_movement import movement_directions
from popsim.checks import check_positive


def launch_angle(
    velocity: Float[AnyArray, "*axes trial time 2"],
    starts: Float[AnyArray, "trial 2"],
    targets: Float[AnyArray, "trial 2"],
    times: Float[AnyArray, "*#axes #trial"],
    *,
    dt: float,
) -> Float[np.ndarray, "*axes trial"]:
    """The angle from the direction of the target to that of the velocity, in rad from -pi to pi.

    `initial_direction_error` is that to the place of the hand.
    Positive to the left, counter-clockwise. At the peak speed: `times = peak_speed(speed, dt=dt).time`.
    Between two steps the velocity is taken to change in a straight line. NaN where a time is, or the hand
    rests then.

    **Arguments:**

    - `velocity`: of the hand in the plane, in m/s; row t is at time (t + 1) dt.
    - `starts`, `targets`: of the trials, in m.
    - `times`: when to look at each trial, in s since its beginning; `np.full(n_trials, 0.1)` for one time.
    - `dt`: the time step in s.

    **Raises:** `ValueError` if a number is not finite (of `times`, NaN is), a target is at its start, or a
    time is before the first or after the last row.
    """
    values = _at_times(finite_float64("velocity", velocity), times, dt)
    return _angle(values, movement_directions(starts, targets))


def initial_direction_error(
    position: Float[AnyArray, "*axes trial time 2"],
    starts: Float[AnyArray, "trial 2"],
    targets: Float[AnyArray, "trial 2"],
    times: Float[AnyArray, "*#axes #trial"],
    *,
    dt: float,
) -> Float[np.ndarray, "*axes trial"]:
    """The angle between target and hand as seen from the start, in rad; positive where the hand is left.

    `launch_angle` is that to the velocity, and so tells what the hand does then, not what it did until then.
    NaN where a time is, or the hand is still at the start.

    **Arguments:** as for `launch_angle`, but

    - `position`: of the hand in the plane, in m.

    **Raises:** as `launch_angle`.
    """
    values = _at_times(finite_float64("position", position), times, dt)
    return _angle(values - finite_float64("starts", starts), movement_directions(starts, targets))


def _at_times(
    values: Float[np.ndarray, "*axes trial time 2"], times: Float[AnyArray, "*#axes #trial"], dt: float
) -> Float[np.ndarray, "*axes trial 2"]:
    """The values at the times (s), NaN where a time is."""
    check_positive("dt", dt)
    last = values.shape[-2]
    steps = np.broadcast_to(np.asarray(times, np.float64) / dt - 1, values.shape[:-2])
    if np.any((steps < -1e-6) | (steps > last - 1 + 1e-6)):
        raise ValueError(
            f"`times` must be from {dt:.4g} s to {last * dt:.4g} s, where the rows are, "
            f"got {np.nanmin(times):.4g} to {np.nanmax(times):.4g} s."
        )
    is_there = np.isfinite(steps)
    steps = np.clip(np.where(is_there, steps, 0.0), 0, last - 1)
    before = np.floor(steps).astype(int)
    after = np.minimum(before + 1, last - 1)
    share = (steps - before)[..., None]

    def at(step: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, step[..., None, None], axis=-2)[..., 0, :]

    between = (1 - share) * at(before) + share * at(after)
    return np.where(is_there[..., None], between, np.nan)


def _angle(
    vectors: Float[np.ndarray, "*axes trial 2"], along: Float[np.ndarray, "trial 2"]
) -> Float[np.ndarray, "*axes trial"]:
    """The angle from `along` to the vectors; NaN for a vector of no length."""
    left = along[:, 0] * vectors[..., 1] - along[:, 1] * vectors[..., 0]
    forward = np.sum(along * vectors, axis=-1)
    return np.where(np.hypot(left, forward) > 0, np.arctan2(left, forward), np.nan)
