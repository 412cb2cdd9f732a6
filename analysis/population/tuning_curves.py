"""Activity for each direction, in windows of time."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.population.activity import population_activity
from popsim.analysis.trial_labels import ALIKE, check_trials, different_labels
from popsim.checks import check_positive


class TuningCurves(NamedTuple):
    """The activity of each unit over directions.

    - `direction`: the different ones, in rad, ascending, above -pi up to pi.
    - `mean`, `deviation`: of the activity over the trials of each direction; the deviation (of n - 1) is NaN
        where there is one trial.
    - `n_trials`: of each direction.
    - `depth`: of modulation: the largest minus the smallest mean.
    - `explained`: the share of the variance over trials that lies between the directions, from 0 to 1; NaN
        where nothing varies.
    """

    direction: Float[np.ndarray, " direction"]
    mean: Float[np.ndarray, "*axes direction unit"]
    deviation: Float[np.ndarray, "*axes direction unit"]
    n_trials: Int[np.ndarray, " direction"]
    depth: Float[np.ndarray, "*axes unit"]
    explained: Float[np.ndarray, "*axes unit"]


def tuning_curves(
    activity: Float[AnyArray, "*axes trial unit"], direction: Float[AnyArray, " trial"]
) -> TuningCurves:
    """The mean activity of units for each direction of movement.

    **Arguments:**

    - `activity`: of each unit in each trial, such as its mean in a window. Of windows of time
        [member, trial, bin, unit]: `mean_in_time_bins(...).swapaxes(1, 2)`, for curves [member, bin, ...].
    - `direction`: of each trial, in rad; those that differ by rounding are one, also across pi and -pi.

    **Raises:** `ValueError` if the trials of both are not equally many, or a number is not finite.
    """
    values, angle = finite_float64("activity", activity), finite_float64("direction", direction)
    check_trials("direction", angle, values.shape[-2])
    turned = np.angle(np.exp(1j * angle))
    turned = np.where(turned < ALIKE * np.pi - np.pi, turned + 2 * np.pi, turned)
    _, which = different_labels(turned)
    count = np.bincount(which)
    groups = [values[..., which == index, :] for index in range(count.size)]
    mean = np.stack([group.mean(axis=-2) for group in groups], axis=-2)
    deviation = np.stack([_deviation(group) for group in groups], axis=-2)
    between, total = mean[..., which, :].var(axis=-2), values.var(axis=-2)
    return TuningCurves(
        direction=np.bincount(which, turned) / count,
        mean=mean,
        deviation=deviation,
        n_trials=count,
        depth=np.ptp(mean, axis=-2),
        explained=between / np.where(total > 0, total, np.nan),
    )


def _deviation(trials: Float[np.ndarray, "*axes trial unit"]) -> Float[np.ndarray, "*axes unit"]:
    if trials.shape[-2] == 1:
        return np.full_like(trials[..., 0, :], np.nan)
    return trials.std(axis=-2, ddof=1)


def mean_in_time_bins(
    activity: Float[AnyArray, "member trial time unit"], edges: Float[AnyArray, " edge"], *, dt: float
) -> Float[np.ndarray, "member trial bin unit"]:
    """The mean activity in successive windows of time, the same in all trials.

    For windows that each trial's epochs and events say, use `popsim.analysis.mean_in_window`.

    **Arguments:**

    - `activity`: of the units; row t is at time (t + 1) dt.
    - `edges`: of the windows in s, ascending; each holds the times above its first up to its last edge.
    - `dt`: the time step in s.

    **Raises:** `ValueError` if the activity has other axes or is not finite, the edges do not ascend, a
        window has no time, or `dt` is not positive.
    """
    values, limits = population_activity("activity", activity), finite_float64("edges", edges)
    check_positive("dt", dt)
    times = dt * np.arange(1, values.shape[2] + 1)
    inside = (times > limits[:-1, None] + 1e-9) & (times <= limits[1:, None] + 1e-9)
    if limits.size < 2 or np.any(np.diff(limits) <= 0) or not np.all(inside.any(axis=1)):
        raise ValueError(
            f"`edges` must ascend, with times of the trial, up to {times[-1]:.4g} s, between each two, "
            f"got {limits}."
        )
    return np.stack([values[:, :, of_bin].mean(axis=2) for of_bin in inside], axis=2)
