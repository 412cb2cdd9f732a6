"""Decoding of conditions and kinematics."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Key

from popsim._shared.checks import n_steps_in
from popsim.analysis import _arrays
from popsim.analysis._arrays import Activity, AnyArray, Labels

__all__ = [
    "decode_condition",
    "decode_condition_across_times",
    "decode_shuffled_condition",
    "chance_level",
    "KinematicDecoding",
    "decode_kinematics",
]


def decode_condition(
    activity: Activity, condition: Labels, *, n_folds: int = 5, key: Key[jax.Array, ""]
) -> Float[np.ndarray, "member time"]:
    """Return the cross-validated accuracy of decoding the condition from the activity at each time.

    Linear discriminant analysis with one covariance for all conditions, that of the scaled units within
    conditions, shrunk after Ledoit & Wolf 2004 by scikit-learn. A classifier is fitted for each member and
    time, and each trial is held out once. Trials must differ: simulate noise. For a statement about networks,
    members are the unit of replication. Chance is `chance_level(condition)`; `decode_shuffled_condition`
    gives its spread.

    **Arguments:**

    - `activity`: activity of the units; to save time give every fifth time, `hidden[:, :, ::5]`.
    - `condition`: label of each trial, at least `n_folds` trials per label. Numbers that differ only by
        rounding are one label.
    """
    values, labels = _activity_and_labels(activity, condition, n_folds)
    folds = _folds(labels, n_folds, _arrays.numpy_generator(key))
    return np.stack([_accuracy_at_each_time(hidden, labels, folds) for hidden in values])


def decode_condition_across_times(
    activity: Activity, condition: Labels, *, n_folds: int = 5, key: Key[jax.Array, ""]
) -> Float[np.ndarray, "member fitted_time tested_time"]:
    """Decode as `decode_condition`, with the classifier of each time tested at every time.

    High values only near the diagonal mean that the code changes, a square of them that it is stable. King &
    Dehaene 2014, Trends Cogn Sci 18:203-210; as in Fyshe 2019, Phil Trans R Soc B 375:20180531.

    **Arguments:** as for `decode_condition`.
    """
    values, labels = _activity_and_labels(activity, condition, n_folds)
    folds = _folds(labels, n_folds, _arrays.numpy_generator(key))
    n_steps, n_units = values.shape[2:]
    correct = np.zeros((len(values), n_steps, n_steps))
    for hidden, hits in zip(values, correct, strict=True):
        for fitted, tested in folds:
            held_out = hidden[tested].reshape(-1, n_units)
            for time in range(n_steps):
                named = _predict_labels(held_out, *_discriminant(hidden[fitted, time], labels[fitted]))
                hits[time] += np.sum(named.reshape(-1, n_steps) == labels[tested, None], axis=0)
    return correct / labels.size


def decode_shuffled_condition(
    activity: Activity, condition: Labels, *, n_shuffles: int = 20, n_folds: int = 5, key: Key[jax.Array, ""]
) -> Float[np.ndarray, "shuffle member time"]:
    """Return the accuracy of `decode_condition` with shuffled labels, the same for all times and members."""
    values, labels = _activity_and_labels(activity, condition, n_folds)
    generator = _arrays.numpy_generator(key)
    accuracy = []
    for _ in range(n_shuffles):
        shuffled = generator.permutation(labels)
        folds = _folds(shuffled, n_folds, generator)
        accuracy.append([_accuracy_at_each_time(hidden, shuffled, folds) for hidden in values])
    return np.asarray(accuracy)


def chance_level(condition: Labels) -> float:
    """Return the accuracy of always choosing the most frequent condition."""
    count = np.bincount(_arrays.unique_labels(condition)[1])
    return float(count.max() / count.sum())


Folds = list[tuple[np.ndarray, np.ndarray]]


def _activity_and_labels(
    activity: AnyArray, condition: AnyArray, n_folds: int
) -> tuple[Float[np.ndarray, "member trial time unit"], Int[np.ndarray, " trial"]]:
    values, labels = _arrays.as_activity("activity", activity), np.asarray(condition)
    _arrays.check_axes("condition", labels, f"trial={values.shape[1]}")
    different, label_index = _arrays.unique_labels(labels)
    count = np.bincount(label_index)
    if different.size < 2 or n_folds < 2 or count.min() < n_folds:
        raise ValueError(
            f"`condition` must have two labels or more, each in at least `n_folds` = {n_folds} trials (2 or "
            f"more), got {different.size} labels, the rarest in {count.min()} trials."
        )
    return values, label_index


def _folds(labels: Int[np.ndarray, " trial"], n_folds: int, generator: np.random.Generator) -> Folds:
    selection = _arrays.import_optional("sklearn.model_selection")
    seed = int(generator.integers(2**31))
    splitter = selection.StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(splitter.split(labels, labels))


def _discriminant(
    activity: Float[np.ndarray, "trial unit"], labels: Int[np.ndarray, " trial"]
) -> tuple[Float[np.ndarray, "unit label"], Float[np.ndarray, " label"]]:
    fraction = np.bincount(labels) / labels.size
    means = np.stack([activity[labels == label].mean(axis=0) for label in range(fraction.size)])
    within = activity - means[labels]
    scale = np.sqrt(np.mean(within**2, axis=0))
    spread = np.ptp(activity, axis=0)
    scale = np.where(scale > 0, scale, np.where(spread > 0, spread, 1.0))
    if not within.any():  # trials of a condition are identical: no covariance to estimate
        covariance = np.eye(scale.size)
    else:
        covariance, _ = _arrays.import_optional("sklearn.covariance").ledoit_wolf(
            within / scale, assume_centered=True
        )
    weights = np.linalg.lstsq(covariance, (means / scale).T, rcond=None)[0] / scale[:, None]
    return weights, np.log(fraction) - np.sum(means.T * weights, axis=0) / 2


def _predict_labels(
    activity: Float[np.ndarray, "trial unit"],
    weights: Float[np.ndarray, "unit label"],
    offset: Float[np.ndarray, " label"],
) -> Int[np.ndarray, " trial"]:
    return np.argmax(activity @ weights + offset, axis=1)


def _accuracy_at_each_time(
    activity: Float[np.ndarray, "trial time unit"], labels: Int[np.ndarray, " trial"], folds: Folds
) -> Float[np.ndarray, " time"]:
    correct = np.zeros(activity.shape[1])
    for fitted, tested in folds:
        for time in range(correct.size):
            fit = _discriminant(activity[fitted, time], labels[fitted])
            correct[time] += np.sum(_predict_labels(activity[tested, time], *fit) == labels[tested])
    return correct / labels.size


_PENALTIES = np.logspace(-4, 8, 13)  # of units of unit deviation; the last leaves little but the mean


class KinematicDecoding(NamedTuple):
    """The kinematics predicted in held-out trials by a linear readout of each member's activity.

    - `predicted`: in the unit of the kinematics; NaN at the first times, where `lead` leaves no activity.
    - `r2`: 1 - |error|^2 / |deviation from the mean|^2 over all held-out trials and times, at most 1; NaN
        if the kinematics do not vary.
    - `r2_over_time`: the same over trials, at each time.
    """

    predicted: Float[np.ndarray, "member trial time feature"]
    r2: Float[np.ndarray, "member feature"]
    r2_over_time: Float[np.ndarray, "member time feature"]


def decode_kinematics(
    activity: Activity,
    kinematics: Float[AnyArray, "member trial time feature"],
    *,
    lead: float = 0.0,
    dt: float,
    n_folds: int = 5,
    key: Key[jax.Array, ""],
) -> KinematicDecoding:
    """Decode the position or velocity of the hand from the activity, by cross-validated ridge regression.

    Each member has one readout for all times, with units scaled to unit standard deviation (by scikit-learn).
    Whole trials are held out, both for the predictions and, within the fitted trials, for the choice of each
    feature's penalty (nested cross-validation). Permute `kinematics` over trials for a control.

    **Arguments:**

    - `kinematics`: such as `states.hand.velocity`.
    - `lead`: time by which the activity precedes the kinematics, in s: a multiple of `dt`, zero or more.
    - `n_folds`: number of folds, from 2 to the number of trials, which leave two trials or more to fit.
    """
    values = _arrays.as_activity("activity", activity)
    n_members, n_trials, n_steps = values.shape[:3]
    axes = f"member={n_members} trial={n_trials} time={n_steps} feature"
    movement = _arrays.finite_float64("kinematics", kinematics, axes)
    _arrays.check_within("n_folds", n_folds, 2, n_trials)
    if n_trials - -(-n_trials // n_folds) < 2:
        raise ValueError(
            f"`n_folds` must leave two trials or more to fit and to choose the penalty by, "
            f"got {n_folds} folds of {n_trials} trials."
        )
    if (shift := n_steps_in("lead", lead, dt)) >= n_steps:
        raise ValueError(f"`lead` must be shorter than a trial, {n_steps * dt:.4g} s, got {lead} s.")
    order = _arrays.numpy_generator(key).permutation(n_trials)
    predicted = np.full(movement.shape, np.nan)
    for hidden, target, into in zip(values, movement, predicted, strict=True):
        for held_out in np.array_split(order, n_folds):
            fitted = order[~np.isin(order, held_out)]
            trials = hidden[:, : n_steps - shift], target[:, shift:]
            penalties = _best_penalties(*trials, np.array_split(fitted, min(n_folds, fitted.size)))
            into[held_out, shift:] = _predictions(*trials, fitted, held_out, penalties[None])[0]
    error, spread = (predicted - movement)[:, :, shift:], movement[:, :, shift:]
    over_time = np.full((len(movement), n_steps, movement.shape[3]), np.nan)
    over_time[:, shift:] = _r_squared(error, spread, axis=(1,))
    return KinematicDecoding(predicted, _r_squared(error, spread, axis=(1, 2)), over_time)


def _best_penalties(
    activity: Float[np.ndarray, "trial time unit"],
    kinematics: Float[np.ndarray, "trial time feature"],
    folds: list[np.ndarray],
) -> Float[np.ndarray, " feature"]:
    n_features = kinematics.shape[-1]
    errors = np.zeros((_PENALTIES.size, n_features))
    for place, held_out in enumerate(folds):
        fitted = np.concatenate([*folds[:place], *folds[place + 1 :]])
        penalties = np.tile(_PENALTIES[:, None], n_features)
        predicted = _predictions(activity, kinematics, fitted, held_out, penalties)
        errors += np.sum((predicted - kinematics[held_out]) ** 2, axis=(1, 2))
    return _PENALTIES[np.argmin(errors, axis=0)]


def _predictions(
    activity: Float[np.ndarray, "trial time unit"],
    kinematics: Float[np.ndarray, "trial time feature"],
    fitted: np.ndarray,
    held_out: np.ndarray,
    penalties: Float[np.ndarray, "choice feature"],
) -> Float[np.ndarray, "choice held_out time feature"]:
    samples = _arrays.import_optional("sklearn.preprocessing").StandardScaler()
    ridge = _arrays.import_optional("sklearn.linear_model").Ridge(alpha=penalties.ravel(), solver="cholesky")
    targets = np.tile(kinematics[fitted].reshape(-1, kinematics.shape[-1]), len(penalties))
    ridge.fit(samples.fit_transform(activity[fitted].reshape(-1, activity.shape[-1])), targets)
    predicted = ridge.predict(samples.transform(activity[held_out].reshape(-1, activity.shape[-1])))
    return np.moveaxis(predicted.reshape(len(held_out), -1, *penalties.shape), 2, 0)


def _r_squared(
    error: Float[np.ndarray, "member trial time feature"],
    values: Float[np.ndarray, "member trial time feature"],
    axis: tuple[int, ...],
) -> Float[np.ndarray, "..."]:
    spread = np.sum((values - values.mean(axis=axis, keepdims=True)) ** 2, axis=axis)
    return 1 - np.sum(error**2, axis=axis) / np.where(spread > 0, spread, np.nan)
