"""How well the movement of the hand can be read from the activity."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim.analysis.arrays import AnyArray, finite_float64, numpy_generator
from popsim.analysis.optional_packages import optional
from popsim.analysis.population.activity import population_activity
from popsim.checks import n_steps_in

_PENALTIES = np.logspace(-4, 4, 9)


class KinematicDecoding(NamedTuple):
    """The kinematics that a linear readout of each member's activity gives in trials it was not fitted on.

    - `predicted`: in the unit of the kinematics; NaN at the first times, for which `lead` leaves no activity.
    - `r2`: 1 - |error|^2 / |deviation from the mean|^2 over all held-out trials and times, at most 1; NaN
        where the kinematics do not vary.
    - `r2_over_time`: the same over trials, at each time.
    """

    predicted: Float[np.ndarray, "member trial time feature"]
    r2: Float[np.ndarray, "member feature"]
    r2_over_time: Float[np.ndarray, "member time feature"]


def decode_kinematics(
    activity: Float[AnyArray, "member trial time unit"],
    kinematics: Float[AnyArray, "member trial time feature"],
    *,
    lead: float = 0.0,
    dt: float,
    n_folds: int = 5,
    key: Key[jax.Array, ""],
) -> KinematicDecoding:
    """The position or velocity of the hand from the activity, by ridge regression with whole trials held out.

    One readout for all times, for each member, with units scaled to one standard deviation and a penalty that
    leave-one-out errors within the fitted trials choose (scikit-learn's RidgeCV). Times of a trial are not
    independent of one another: trials are what is held out, and for a statement about networks members are
    the unit of replication. Permute `kinematics` over trials for a control.

    **Arguments:**

    - `activity`: of the units.
    - `kinematics`: such as `states.hand.velocity`.
    - `lead`: how long the activity comes before the kinematics, in s: a multiple of `dt`, zero or more.
    - `dt`: the time step in s.
    - `n_folds`: in how many parts the trials are split, from 2 to the number of trials.
    - `key`: of the split.

    **Raises:** `ValueError` if the activity has other axes, the kinematics are not of its members, trials
        and times, a number is not finite, or `lead` or `n_folds` does not fit; `ImportError` without
        scikit-learn.
    """
    values, wanted = population_activity("activity", activity), finite_float64("kinematics", kinematics)
    n_trials, n_steps = values.shape[1:3]
    if wanted.ndim != 4 or wanted.shape[:3] != values.shape[:3]:
        raise ValueError(
            f"`kinematics` must have the members, trials and times of `activity`, {values.shape[:3]}, "
            f"and features, got shape {wanted.shape}."
        )
    if not 2 <= n_folds <= n_trials:
        raise ValueError(f"`n_folds` must be from 2 to {n_trials}, the trials, got {n_folds}.")
    if (shift := n_steps_in("lead", lead, dt)) >= n_steps:
        raise ValueError(f"`lead` must be shorter than a trial, {n_steps * dt:.4g} s, got {lead} s.")
    folds = np.array_split(numpy_generator(key).permutation(n_trials), n_folds)
    predicted = np.full(wanted.shape, np.nan)
    for of_member, target, into in zip(values, wanted, predicted, strict=True):
        for held_out in folds:
            into[held_out, shift:] = _prediction(of_member[:, : n_steps - shift], target[:, shift:], held_out)
    error, spread = (predicted - wanted)[:, :, shift:], wanted[:, :, shift:]
    over_time = np.full((len(wanted), n_steps, wanted.shape[3]), np.nan)
    over_time[:, shift:] = _r_squared(error, spread, axis=(1,))
    return KinematicDecoding(predicted, _r_squared(error, spread, axis=(1, 2)), over_time)


def _prediction(
    activity: Float[np.ndarray, "trial time unit"],
    kinematics: Float[np.ndarray, "trial time feature"],
    held_out: np.ndarray,
) -> Float[np.ndarray, "held_out time feature"]:
    fitted = np.setdiff1d(np.arange(len(activity)), held_out)
    samples, targets = (array[fitted].reshape(-1, array.shape[-1]) for array in (activity, kinematics))
    center, scale = samples.mean(axis=0), samples.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    readout = (
        optional("sklearn.linear_model").RidgeCV(alphas=_PENALTIES).fit((samples - center) / scale, targets)
    )
    tested = (activity[held_out].reshape(-1, activity.shape[-1]) - center) / scale
    return readout.predict(tested).reshape(len(held_out), -1, targets.shape[-1])


def _r_squared(
    error: Float[np.ndarray, "member trial time feature"],
    values: Float[np.ndarray, "member trial time feature"],
    axis: tuple[int, ...],
) -> Float[np.ndarray, "..."]:
    spread = np.sum((values - values.mean(axis=axis, keepdims=True)) ** 2, axis=axis)
    return 1 - np.sum(error**2, axis=axis) / np.where(spread > 0, spread, np.nan)
