"""The arrays of stored trials: padded to one length, with times in seconds, and checked."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from popsim._checks import check_instance, is_numeric, kind_of, short_repr
from popsim._plain_values import HALF
from popsim.trial import RecordedActivity
from popsim.windows import NEVER

Series = Float[np.ndarray, "trial time feature"]
WITHIN = "within its trial"


class SeriesShape:
    """The number of time steps of each trial (`lengths`) and of the longest, of `inputs`, which decide."""

    def __init__(self, inputs: Mapping[str, Any]):
        listed = {name: series for name, series in inputs.items() if is_list_of_trials(series)}
        name, first = next(iter(listed.items() or inputs.items()))
        if listed:
            self.lengths = np.array([np.shape(trial)[0] if np.ndim(trial) else 0 for trial in first], int)
            self.n_steps = int(self.lengths.max(initial=0))
        else:
            shape = np.shape(first)
            if len(shape) != 3:
                raise ValueError(
                    f"`inputs[{name!r}]` must have the axes (trial, time, channel), got shape {shape}: "
                    "for one channel, append [..., None]; for one trial, use [None]."
                )
            self.lengths, self.n_steps = np.full(shape[0], shape[1]), shape[1]
        if not self.lengths.size or self.lengths.min() == 0:
            raise ValueError(
                f"`inputs[{name!r}]` must be trials of one time step or more, got {kind_of(first)}."
            )

    @property
    def n_trials(self) -> int:
        return self.lengths.size

    @property
    def is_within(self) -> Bool[np.ndarray, "trial time"]:
        """Whether each time step is within its trial, not of its padding."""
        return np.arange(self.n_steps) < self.lengths[:, None]

    def padded(self, name: str, series: Any, feature: str = "channel") -> Series:
        """Return trials with zeros after their end."""
        if not is_list_of_trials(series):
            array = _as_floats(name, series)
            expected = (self.n_trials, self.n_steps)
            if array.ndim != 3 or array.shape[:2] != expected or not array.shape[2]:
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
            wide = [np.asarray(trial)[..., None] if np.ndim(trial) == 1 else trial for trial in mask]
            counts = self.padded(name, wide)
            counts = counts[..., 0] if np.ndim(mask[0]) == 1 else counts
        else:
            counts = _as_floats(name, mask)
        shape = (self.n_trials, self.n_steps)
        if counts.shape not in (shape, (*shape, n_features)):
            raise ValueError(
                f"`{name}` must be of shape {shape}, or {(*shape, n_features)}, got {counts.shape}."
            )
        is_bad = ~(np.isfinite(counts) & (counts >= 0))
        if is_bad.any():
            raise ValueError(f"`{name}` must be bools, or weights of at least zero, got {counts[is_bad][0]}.")
        return counts * (within if counts.ndim == 2 else within[..., None])


def is_list_of_trials(series: Any) -> bool:
    """Return whether a series is a list with an array for each trial."""
    return isinstance(series, list | tuple) or getattr(getattr(series, "dtype", None), "hasobject", False)


def _as_floats(name: str, values: Any) -> Float[np.ndarray, "..."]:
    """Return an array of the default floating-point type, of times in seconds; NaN where it is masked."""
    dtype = np.asarray(values).dtype
    if not (is_numeric(dtype) or dtype.kind == "m"):
        raise ValueError(f"`{name}` must be an array of numbers, got {dtype}.")
    converted = in_seconds(name, values)
    is_masked = np.ma.is_masked(converted)
    array = converted.astype(float).filled(np.nan) if is_masked else np.asarray(converted)
    with np.errstate(over="ignore"):
        return array.astype(jnp.result_type(float))


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
    check_instance("conditions", conditions, Mapping, 'labels by name, such as {"direction": directions}')
    arrays = {}
    for name, labels in conditions.items():
        array = np.asarray(in_seconds(f"conditions[{name!r}]", labels))
        if array.ndim == 0 or array.shape[0] != n_trials:
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
    check_instance("recordings", recordings, Mapping, 'recordings by name, such as {"rates": rates}')
    checked = {}
    for name, recording in recordings.items():
        series, given = _series_and_counts(recording)
        has_counts = given is not None
        label = f"recordings[{name!r}]" + (".values" if has_counts else "")
        values = shape.padded(label, series, "unit")
        counts = shape.counts(f"recordings[{name!r}].counts", given, values.shape[2])
        hint = "give RecordedActivity(values, counts) with zero where nothing was recorded"
        place = f"where it counts; {hint}" if has_counts else f"{WITHIN}, or {hint}"
        values = finite_where(label, values, counts, place)
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
    name: str, times: Mapping[str, Any], shape: SeriesShape, dt: float, *, n_bounds: int
) -> dict[str, Int[np.ndarray, " trial *bound"]]:
    """Return the steps nearest to times in s, of epochs (2 bounds) or events (0); NaN is never."""
    check_instance(name, times, Mapping, "times in seconds by name")
    expected = (shape.n_trials, 2) if n_bounds else (shape.n_trials,)
    steps = {}
    for key, values in times.items():
        label = f"{name}[{key!r}]"
        seconds = _as_floats(label, times_in_seconds(label, values)).astype(float)
        if seconds.shape != expected:
            raise ValueError(
                f"`{name}[{key!r}]` must be of shape {expected}, in seconds, got {seconds.shape}."
            )
        missing = np.isnan(seconds) if not n_bounds else np.isnan(seconds).any(axis=1, keepdims=True)
        known = np.where(missing, 0.0, seconds)
        ends = (shape.lengths * dt)[:, None] if n_bounds else shape.lengths * dt
        is_bad = (known < 0) | (known > ends + 0.5 * dt)
        if n_bounds:
            is_bad |= (known[:, 1] < known[:, 0])[:, None]
        if is_bad.any():
            trial = int(np.argwhere(is_bad)[0][0])
            raise ValueError(
                f"`{name}[{key!r}]` must be times within the trial in seconds, in order, or NaN, got "
                f"{seconds[trial]} in trial {trial} of {shape.lengths[trial] * dt:.6g} s."
            )
        found = np.floor(known / dt + HALF).astype(int)
        found = np.minimum(found, shape.lengths[:, None] if n_bounds else shape.lengths)
        steps[key] = np.where(missing, shape.n_steps if n_bounds else NEVER, found).astype(
            jnp.result_type(int)
        )
    return steps


_PER_SECOND = {
    1e9: "ns nsec nanosec nanosecond",
    1e6: "us μs usec μsec microsec microsecond",
    1e3: "ms msec millisec millisecond",
    1: "s sec second",
    1 / 60: "min minute",
    1 / 3600: "h hr hour",
    1 / 86400: "d day",
}
_UNITS = {name: per_second for per_second, names in _PER_SECOND.items() for name in names.split()}
KNOWN_UNITS = "s, ms, us, ns, min, h, d, their names, or one of these since an event"
_SINCE = re.compile(r"(?P<unit>\S+)\s+(since|from|after|relative to|ref|@)\s.*", re.DOTALL)
_DATE = re.compile(r".*\s(since|from|after|ref|@)\s+\d", re.DOTALL)


def unit_of(values: Any) -> str | None:
    """Return the unit that an array has as an attribute, as those of xarray, pint and Astropy do, or None."""
    if hasattr(values, "attrs"):
        units = [each for name, each in values.attrs.items() if str(name).lower() in ("units", "unit")]
    else:
        units = [getattr(values, name) for name in ("units", "unit") if hasattr(values, name)]
    unit = units[0] if units else ""
    return (unit.decode(errors="replace") if isinstance(unit, bytes) else str(unit)).strip() or None


def per_second(unit: str) -> float | None:
    """Return how many of a unit of time, such as "ms since stimulus", are one second; None for others."""
    text = unicodedata.normalize("NFKC", unit)  # the micro sign becomes the Greek letter
    text = text.strip("[]() .").removeprefix("1.0 ")  # as of neo
    since = _SINCE.fullmatch(text)
    name = since["unit"] if since else text
    name = name if len(name) < 3 else name.lower()
    return _UNITS.get(name.removesuffix("s") if len(name) > 2 else name)


def in_seconds(name: str, values: Any) -> Any:
    """Return `timedelta64`, and numbers with the attribute `units` of a time, in seconds; others as is."""
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.dtype.kind == "m":
        return durations_in_seconds(name, array)
    unit = unit_of(values) if array.dtype.kind in "iuf" else None
    ratio = None if unit is None else per_second(unit)
    if unit is None or ratio is None:
        return values
    if _DATE.match(unit):
        raise ValueError(f"`{name}` must be numbers, got dates, {short_repr(unit)}.")
    return array if ratio == 1 else array / ratio


def durations_in_seconds(name: str, durations: Any) -> Any:
    """Return an array of `timedelta64` in seconds, NaN where it is NaT."""
    if np.datetime_data(durations.dtype)[0] in ("generic", "Y", "M"):
        raise ValueError(f"`{name}` must be of a unit of fixed length, such as ms, got {durations.dtype}.")
    return durations / np.timedelta64(1, "s")


def times_in_seconds(name: str, times: Any) -> Any:
    """Return times as `in_seconds`; raise `ValueError` if they have a unit that is unknown."""
    unit = unit_of(times)
    if unit is not None and per_second(unit) is None:
        raise ValueError(f"`{name}` must be in a unit of time, {KNOWN_UNITS}, got {short_repr(unit)}.")
    return in_seconds(name, times)
