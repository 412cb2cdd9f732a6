"""The arrays of stored trials: padded to one length, and checked; and which trials train or validate."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from popsim._shared.checks import is_number, is_numeric, short_repr, warn_caller
from popsim._shared.plain_values import HALF
from popsim.per_member import PerMember
from popsim.randomness import seed_key
from popsim.tasks.stored._trial_datasets import in_seconds, times_in_seconds
from popsim.trial import RecordedActivity
from popsim.windows import NEVER

Series = Float[np.ndarray, "trial time feature"]
WITHIN = "within its trial"
NO_TRIAL = -1  # in the numbers of trials of a member


class SeriesShape:
    """The number of time steps of each trial (`lengths`) and of the longest, of `inputs`, which decide."""

    def __init__(self, inputs: Mapping[str, Any], lengths: Any = None):
        listed = {name: series for name, series in inputs.items() if is_list_of_trials(series)}
        name, first = next(iter(listed.items() or inputs.items()))
        if not listed and np.ndim(first) != 3:
            raise ValueError(
                f"`inputs[{name!r}]` must have the axes (trial, time, channel), got shape {np.shape(first)}: "
                "for one channel, append [..., None]; for one trial, use [None]."
            )
        found = np.array([len(trial) for trial in first], int)
        self.lengths = found if lengths is None else np.asarray(lengths)
        self.n_trials, self.n_steps = found.size, int(found.max(initial=0))
        if self.lengths.min(initial=self.n_steps) == 0:
            raise ValueError(f"`inputs[{name!r}]` must be trials of one time step or more.")

    @property
    def is_within(self) -> Bool[np.ndarray, "trial time"]:
        """Whether each time step is within its trial, not of its padding."""
        return np.arange(self.n_steps) < self.lengths[:, None]

    def padded(self, name: str, series: Any, feature: str = "channel") -> Series:
        """Return trials with zeros after their end."""
        if not is_list_of_trials(series):
            array, expected = _as_floats(name, series), (self.n_trials, self.n_steps)
            if array.ndim != 3 or array.shape[:2] != expected:
                raise ValueError(
                    f"`{name}` must have the axes (trial, time, {feature}), the first of them {expected} "
                    f"as in the inputs, got shape {array.shape}."
                )
            return array
        if len(series) != self.n_trials:
            raise ValueError(f"`{name}` must be {self.n_trials} trials as the inputs, got {len(series)}.")
        trials = [_as_floats(f"{name}[{index}]", trial) for index, trial in enumerate(series)]
        for index, (trial, length) in enumerate(zip(trials, self.lengths, strict=True)):
            if trial.ndim != 2 or trial.shape != (length, trials[0].shape[-1]):
                raise ValueError(
                    f"`{name}[{index}]` must have the axes (time, {feature}), "
                    f"{(int(length), *trials[0].shape[-1:])} as the inputs and trial 0, got {trial.shape}."
                )
        padded = np.zeros((self.n_trials, self.n_steps, trials[0].shape[1]), trials[0].dtype)
        for place, trial in zip(padded, trials, strict=True):
            place[: len(trial)] = trial
        return padded

    def counts(self, name: str, mask: Any, n_features: int) -> Float[np.ndarray, "trial time *features"]:
        """Return weights of time steps, or of features at each of them; zero after the end of a trial."""
        within = self.is_within.astype(jnp.result_type(float))
        if mask is None:
            return within
        if is_list_of_trials(mask):
            of_steps = np.ndim(mask[0]) == 1
            counts = self.padded(name, [np.asarray(trial)[..., None] for trial in mask] if of_steps else mask)
            counts = counts[..., 0] if of_steps else counts
        else:
            counts = _as_floats(name, mask)
        shape = (self.n_trials, self.n_steps)
        if counts.shape not in (shape, (*shape, n_features)) or not np.all(counts >= 0):
            raise ValueError(
                f"`{name}` must be bools, or weights of at least zero, of shape {shape} or "
                f"{(*shape, n_features)}, got {short_repr(mask)} of shape {counts.shape}."
            )
        return counts * (within if counts.ndim == 2 else within[..., None])


def is_list_of_trials(series: Any) -> bool:
    """Return whether a series is a list with an array for each trial."""
    return isinstance(series, list | tuple) or getattr(getattr(series, "dtype", None), "hasobject", False)


def _as_floats(name: str, values: Any, precision: Any = None) -> Float[np.ndarray, "..."]:
    """Return an array of a floating-point type, of times in seconds; NaN where it is masked."""
    dtype = np.asarray(values).dtype
    if not (is_numeric(dtype) or dtype.kind == "m"):
        raise ValueError(f"`{name}` must be an array of numbers, got {dtype}.")
    converted = in_seconds(name, values)
    is_masked = np.ma.is_masked(converted)
    array = converted.astype(float).filled(np.nan) if is_masked else np.asarray(converted)
    with np.errstate(over="ignore"):
        return array.astype(precision or jnp.result_type(float))


def finite_where(name: str, values: Series, counts: Shaped[np.ndarray, "..."], place: str) -> Series:
    """Return a series with zero where nothing counts; raise `ValueError` if it is not finite at `place`."""
    counts = counts if counts.ndim == values.ndim else counts[..., None]
    bad = np.argwhere((counts > 0) & ~np.isfinite(values))
    if bad.size:
        trial, step, feature = bad[0].tolist()
        raise ValueError(
            f"`{name}` must be finite {place}, got {values[trial, step, feature]} in trial {trial} at step "
            f"{step}, number {feature} of the last axis."
        )
    return np.where(np.isfinite(values), values, 0.0).astype(values.dtype)


def as_conditions(conditions: Mapping[str, Any], n_trials: int) -> dict[str, np.ndarray]:
    """Return the labels of trials as arrays of numbers of the default types."""
    arrays = {}
    for name, labels in conditions.items():
        array = np.asarray(in_seconds(f"conditions[{name!r}]", labels))
        if array.shape[:1] != (n_trials,):
            raise ValueError(
                f"`conditions[{name!r}]` must be one for each of {n_trials} trials, got shape {array.shape}."
            )
        kind = float if np.issubdtype(array.dtype, np.floating) else int
        known = is_numeric(array.dtype)
        arrays[name] = array.astype(jnp.result_type(kind)) if known and array.dtype != bool else array
        if not known or kind is int and np.any(arrays[name] != array):
            raise ValueError(
                f"`conditions[{name!r}]` must be of type {jnp.result_type(kind)}, got {short_repr(array)}: "
                "number the labels by numpy.unique(labels, return_inverse=True)[1]."
            )
    return arrays


def as_recordings(recordings: Mapping[str, Any], shape: SeriesShape) -> dict[str, RecordedActivity]:
    """Return recordings of checked arrays: of arrays, or of `RecordedActivity`."""
    checked = {}
    for name, recording in recordings.items():
        label = f"recordings[{name!r}]"
        series, given = _series_and_counts(recording)
        values = shape.padded(label, series, "unit")
        counts = shape.counts(label, given, values.shape[2])
        hint = "give RecordedActivity(values, counts) with zero where nothing was recorded"
        values = finite_where(label, values, counts, f"where it counts; {hint}")
        counts = counts if counts.ndim == 3 else counts[..., None]
        checked[name] = RecordedActivity(jnp.asarray(values), jnp.asarray(counts))
    return checked


def _series_and_counts(recording: Any) -> tuple[Any, Any]:
    """Return the values and the counts of a recording; None for counts that are not given."""
    if is_list_of_trials(recording) and all(isinstance(trial, RecordedActivity) for trial in recording):
        of_trials = [_series_and_counts(trial) for trial in recording]
        return [values for values, _ in of_trials], [counts for _, counts in of_trials]
    if not isinstance(recording, RecordedActivity):
        return recording, None
    values, counts = recording.values, recording.counts
    is_of_steps = np.ndim(counts) == np.ndim(values) and np.shape(counts)[-1] == 1
    return values, np.asarray(counts)[..., 0] if is_of_steps else counts


def steps_of_times(
    name: str, times: Mapping[str, Any], shape: SeriesShape, dt: float, start: Any, *, n_bounds: int
) -> dict[str, Int[np.ndarray, " trial *bound"]]:
    """Return the steps nearest to times in s, of epochs (2 bounds) or events (0); NaN is never."""
    # In double precision: times of a session may be large, and those since the start of a trial small.
    starts = _as_floats("start", times_in_seconds("start", start), float)
    if starts.shape not in ((), (shape.n_trials,)) or not np.all(np.isfinite(starts)):
        raise ValueError(
            f"`start` must be a time in seconds, or one for each of {shape.n_trials} trials, got "
            f"{short_repr(start)}."
        )
    expected = (shape.n_trials, 2) if n_bounds else (shape.n_trials,)
    lengths = shape.lengths[:, None] if n_bounds else shape.lengths
    steps = {}
    for key, values in times.items():
        label = f"{name}[{key!r}]"
        seconds = _as_floats(label, times_in_seconds(label, values), float)
        if seconds.shape != expected:
            raise ValueError(f"`{label}` must be of shape {expected}, in seconds, got {seconds.shape}.")
        since_start = (seconds.T - starts).T
        missing = np.isnan(seconds).any(axis=1, keepdims=True) if n_bounds else np.isnan(seconds)
        known = np.where(missing, 0.0, since_start)
        is_bad = (known < 0) | (known > (lengths + 0.5) * dt)
        if n_bounds:
            is_bad |= (known[:, 1] < known[:, 0])[:, None]
        if is_bad.any():
            trial = int(np.argwhere(is_bad)[0][0])
            raise ValueError(
                f"`{label}` must be times within the trial in seconds, in order, or NaN, got "
                f"{seconds[trial]} in trial {trial} of {shape.lengths[trial] * dt:.6g} s, see `start`."
            )
        found = np.minimum(np.floor(known / dt + HALF).astype(int), lengths)
        never = shape.n_steps if n_bounds else NEVER
        steps[key] = np.where(missing, never, found).astype(jnp.result_type(int))
    return steps


def training_and_validation(
    train: Any, validation: Any, conditions: Mapping[str, np.ndarray], n_trials: int
) -> tuple[Any, Any]:
    """Return the numbers of the trials that train and of those that validate; of members, if one is."""
    counts = {len(each.values) for each in (train, validation) if isinstance(each, PerMember)}
    if len(counts) > 1:
        raise ValueError(f"`train` and `validation` must be of the same members, got {sorted(counts)}.")
    selections = [
        _of_one_member(_at(train, member, padding=True), _at(validation, member), conditions, n_trials)
        for member in range(max(counts, default=1))
    ]
    shared = np.unique(np.concatenate([np.intersect1d(*both) for both in selections]))
    if shared.size:
        warn_caller(
            f"`train` and `validation` have {shared.size} of {n_trials} trials in common, such as "
            f"{shared[0]}: the validation loss does not measure how a network does on trials that it has not "
            "seen."
        )
    if not counts:
        return selections[0]
    by_member = list(zip(*selections, strict=True))
    if len(lengths := {each.size for each in by_member[1]}) > 1:
        raise ValueError(f"`validation` must be as many trials for each member, got {sorted(lengths)}.")
    training, validating = map(of_members, by_member)
    return training, validating


def of_members(numbers: Sequence[Int[np.ndarray, " _"]]) -> PerMember:
    """Return numbers of trials of each member, with `NO_TRIAL` after those of one that has fewer."""
    most = max(each.size for each in numbers)
    padded = [np.pad(each, (0, most - each.size), constant_values=NO_TRIAL) for each in numbers]
    return PerMember(np.stack(padded))


def _at(selection: Any, member: int, *, padding: bool = False) -> Any:
    """Return the selection of one member, without the numbers that are `padding`."""
    if not isinstance(selection, PerMember):
        return selection
    own = np.asarray(selection.values)[member]
    return own[own != NO_TRIAL] if padding and own.ndim == 1 and own.dtype != bool else own


def _of_one_member(
    train: Any, validation: Any, conditions: Mapping[str, np.ndarray], n_trials: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " validation"]]:
    if train is not None and not is_number(train):
        training = _selected("train", train, conditions, n_trials)
        return training, _selected("validation", validation, conditions, n_trials, others=training)
    validating = _selected("validation", validation, conditions, n_trials)
    if train is not None:
        return _selected("train", train, conditions, n_trials, others=validating), validating
    training = np.setdiff1d(np.arange(n_trials), validating)
    if not training.size:
        raise ValueError("`train` must be at least one trial, got none: `validation` has all of them.")
    return training, validating


def _selected(
    name: str,
    selection: Any,
    conditions: Mapping[str, np.ndarray],
    n_trials: int,
    others: Int[np.ndarray, " other"] | None = None,
) -> Int[np.ndarray, " selected"]:
    """Return the trials that an argument called `name` selects; a fraction draws none of `others`."""
    if isinstance(selection, Mapping):
        return _of_conditions(name, selection, conditions, n_trials)
    if is_number(selection):
        return _drawn(name, float(selection), n_trials, others)
    numbers = np.asarray(selection)
    numbers = np.flatnonzero(numbers) if numbers.dtype == bool and numbers.shape == (n_trials,) else numbers
    is_known = numbers.ndim == 1 and numbers.dtype.kind in "iu" and numbers.size
    if (
        not is_known
        or numbers.min() < 0
        or numbers.max() >= n_trials
        or np.unique(numbers).size < numbers.size
    ):
        raise ValueError(
            f"`{name}` must be numbers of trials, 0 to {n_trials - 1}, each once, {n_trials} bools of which "
            'one is True, values of conditions such as {"direction": [0, 3]}, or a fraction, '
            f"got {short_repr(selection)}."
        )
    return numbers


def _drawn(
    name: str, fraction: float, n_trials: int, others: Int[np.ndarray, " other"] | None
) -> Int[np.ndarray, " selected"]:
    with jax.ensure_compile_time_eval():
        order = np.asarray(jax.random.permutation(seed_key(0), n_trials))
    n_free = n_trials - 1 if others is None else n_trials - others.size
    wanted = fraction * n_trials
    # Two halves of an odd number of trials are rounded up and down.
    if not 0 < fraction < 1 or round(wanted) < 1 or not n_free or wanted >= n_free + 1:
        raise ValueError(
            f"`{name}` as a fraction must leave some of {n_trials} trials on both sides, at most {n_free} "
            f"that the other of `train` and `validation` does not select, got {fraction}."
        )
    order = order if others is None else order[~np.isin(order, others)]
    return np.sort(order[: min(round(wanted), n_free)])


def _of_conditions(
    name: str, selection: Mapping[str, Any], conditions: Mapping[str, np.ndarray], n_trials: int
) -> Int[np.ndarray, " selected"]:
    is_selected = np.ones(n_trials, bool)
    for key, values in selection.items():
        if key not in conditions or conditions[key].ndim != 1:
            singles = [each for each, labels in conditions.items() if labels.ndim == 1]
            raise ValueError(f"`{name}` must be of conditions that are one number, {singles}, got {key!r}.")
        labels = conditions[key]
        wanted = np.atleast_1d(np.asarray(in_seconds(f"{name}[{key!r}]", values)))
        if np.issubdtype(labels.dtype, np.floating):
            wanted = wanted.astype(labels.dtype)  # 0.1 is that of the precision of the labels
        if not np.all(np.isin(wanted, labels)):
            known = np.unique(labels)[:8].tolist()
            raise ValueError(
                f"`{name}[{key!r}]` must be values that occur, such as {known}, got {short_repr(values)}."
            )
        is_selected &= np.isin(labels, wanted)
    if not selection or not is_selected.any():
        raise ValueError(f"`{name}` must select at least one trial, got none by {short_repr(selection)}.")
    return np.flatnonzero(is_selected)
