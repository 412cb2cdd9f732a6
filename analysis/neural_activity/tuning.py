"""Tuning curves and preferred directions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from popsim._shared.checks import check_time_step
from popsim.analysis import _arrays
from popsim.analysis._arrays import ALIKE, Activity, AnyArray

__all__ = [
    "RayleighTest",
    "rayleigh_test",
    "TuningCurves",
    "tuning_curves",
    "mean_in_time_bins",
    "CosineTuning",
    "cosine_tuning",
    "PreferredDirectionChange",
    "preferred_direction_change",
]


class RayleighTest(NamedTuple):
    """The concentration of angles around their mean.

    - `direction`: circular mean, in rad from -pi to pi.
    - `resultant_length`: from 0 for evenly spread angles to 1 for identical ones.
    - `p`: probability of at least this length under a uniform distribution.
    """

    direction: Float[np.ndarray, "*axes"]
    resultant_length: Float[np.ndarray, "*axes"]
    p: Float[np.ndarray, "*axes"]


def rayleigh_test(angles: Float[AnyArray, "*axes sample"]) -> RayleighTest:
    """Return the circular mean and resultant length of angles, with Rayleigh's test of uniformity.

    p = exp(sqrt(1 + 4 n + 4 (n^2 - R^2)) - (1 + 2 n)) with R = n times the length, from Zar, Biostatistical
    Analysis, as in `circ_rtest` of the toolbox of Berens 2009, J Stat Softw 31(10). The samples, such as the
    preferred directions of units, must be independent. For axes, which have no sign, as where preferred
    directions are bimodal, double the angles: `rayleigh_test(2 * angles)`, whose direction is twice the axis.
    """
    values = _arrays.finite_float64("angles", angles)
    vector = np.mean(np.exp(1j * values), axis=-1)
    length = np.minimum(np.abs(vector), 1.0)
    n = values.shape[-1]
    p = np.exp(np.sqrt(1 + 4 * n + 4 * n**2 * (1 - length**2)) - (1 + 2 * n))
    return RayleighTest(np.asarray(np.angle(vector)), np.asarray(length), np.asarray(p))


class TuningCurves(NamedTuple):
    """The activity of each unit as a function of direction.

    - `direction`: distinct directions in rad, ascending, above -pi up to pi.
    - `mean`, `deviation`: mean and standard deviation (n - 1) of the activity over the trials of each
        direction; the deviation is NaN for a single trial.
    - `depth`: depth of modulation, the largest minus the smallest mean.
    - `explained`: share of the variance over trials between directions, from 0 to 1; NaN without variance.
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
    """Return the mean activity of units for each direction of movement.

    **Arguments:**

    - `activity`: activity of each unit per trial, such as its mean in a window. For time bins, give
        `mean_in_time_bins(...).swapaxes(1, 2)`, which results in curves [member, bin, ...].
    - `direction`: per trial, in rad; directions that differ only by rounding are one, also across pi and -pi.
    """
    values = _arrays.finite_float64("activity", activity)
    angle = _arrays.finite_float64("direction", direction, f"trial={values.shape[-2]}")
    turned = np.angle(np.exp(1j * angle))
    turned = np.where(turned < ALIKE * np.pi - np.pi, turned + 2 * np.pi, turned)
    _, direction_index = _arrays.unique_labels(turned)
    count = np.bincount(direction_index)
    groups = [values[..., direction_index == index, :] for index in range(count.size)]
    mean = np.stack([group.mean(axis=-2) for group in groups], axis=-2)
    deviation = np.stack([_deviation(group) for group in groups], axis=-2)
    between, total = mean[..., direction_index, :].var(axis=-2), values.var(axis=-2)
    return TuningCurves(
        direction=np.bincount(direction_index, turned) / count,
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
    activity: Activity, edges: Float[AnyArray, " edge"], *, dt: float
) -> Float[np.ndarray, "member trial bin unit"]:
    """Return the mean activity in successive time windows, the same in all trials.

    For windows relative to the epochs and events of each trial, use `popsim.analysis.mean_in_window`.

    **Arguments:**

    - `edges`: window edges in s, ascending; a window excludes its first edge and includes its last.
    """
    values, limits = _arrays.as_activity("activity", activity), _arrays.finite_float64("edges", edges)
    check_time_step(dt)
    times = dt * np.arange(1, values.shape[2] + 1)
    inside = (times > limits[:-1, None] + 1e-9) & (times <= limits[1:, None] + 1e-9)
    if limits.size < 2 or np.any(np.diff(limits) <= 0) or not np.all(inside.any(axis=1)):
        raise ValueError(
            f"`edges` must ascend, with times of the trial, up to {times[-1]:.4g} s, between each two, "
            f"got {limits}."
        )
    return np.stack([values[:, :, is_in_bin].mean(axis=2) for is_in_bin in inside], axis=2)


class CosineTuning(NamedTuple):
    """A least-squares fit of baseline + depth cos(direction - preferred) to activity.

    - `baseline`, `depth`: in the unit of the activity; `depth` is not negative.
    - `preferred`: direction of the highest activity, in rad from -pi to pi.
    - `explained`: share of the variance over trials explained by the cosine; NaN without variance.
    """

    baseline: Float[np.ndarray, "*axes unit"]
    depth: Float[np.ndarray, "*axes unit"]
    preferred: Float[np.ndarray, "*axes unit"]
    explained: Float[np.ndarray, "*axes unit"]


def cosine_tuning(
    activity: Float[AnyArray, "*axes trial unit"], direction: Float[AnyArray, " trial"]
) -> CosineTuning:
    """Fit cosine tuning curves to the activity of units or muscles.

    The regression of Georgopoulos, Kalaska, Caminiti & Massey 1982, J Neurosci 2:1527-1537, abstract.

    **Arguments:**

    - `activity`: activity of each unit per trial, such as the mean over the movement.
    - `direction`: per trial, in rad; at least three distinct directions.
    """
    values = _arrays.finite_float64("activity", activity)
    angle = _arrays.finite_float64("direction", direction, f"trial={values.shape[-2]}")
    design = np.stack([np.ones_like(angle), np.cos(angle), np.sin(angle)], axis=1)
    if np.linalg.matrix_rank(design, tol=1e-6) < 3:
        raise ValueError(f"`direction` must be three different directions or more, got {angle} rad.")
    weights = np.linalg.pinv(design) @ values
    varied = values.var(axis=-2)
    explained = 1 - (values - design @ weights).var(axis=-2) / np.where(varied > 0, varied, np.nan)
    baseline, along, across = np.moveaxis(weights, -2, 0)
    return CosineTuning(baseline, np.hypot(along, across), np.arctan2(across, along), explained)


class PreferredDirectionChange(NamedTuple):
    """The rotation of the preferred directions of units.

    - `angle`: per unit, in rad from -pi to pi; positive for anticlockwise rotation.
    - `stability`: mean cosine of the angles over the tuned units: 1 if none rotates, 0 if the two epochs are
        unrelated, -1 if all reverse. NaN without tuned units.
    """

    angle: Float[np.ndarray, "*axes unit"]
    stability: Float[np.ndarray, "*axes"]


def preferred_direction_change(
    before: Float[AnyArray, "*axes unit"],
    after: Float[AnyArray, "*axes unit"],
    *,
    tuned: Bool[AnyArray, "*axes unit"] | None = None,
) -> PreferredDirectionChange:
    """Return the rotation of preferred directions from one epoch to another.

    **Arguments:**

    - `tuned`: units included in `stability`, such as those with `explained` above 0.5; None for all.
    """
    first, second = _arrays.finite_float64("before", before), _arrays.finite_float64("after", after)
    counts = np.ones(first.shape, bool) if tuned is None else np.asarray(tuned)
    if not first.shape == second.shape == counts.shape:
        raise ValueError(
            "`before`, `after` and `tuned` must have the same shape, "
            f"got {first.shape}, {second.shape} and {counts.shape}."
        )
    angle = np.angle(np.exp(1j * (second - first)))
    n_units = counts.sum(axis=-1)
    total = np.sum(np.where(counts, np.cos(angle), 0.0), axis=-1)
    return PreferredDirectionChange(angle, np.asarray(total / np.where(n_units > 0, n_units, np.nan)))
