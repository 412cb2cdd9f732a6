"""Trials in datasets of xarray, and in the files that it opens; and times in other units than seconds."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from popsim._shared import checks
from popsim._shared.checks import short_repr
from popsim._shared.text_checks import one_line

_PER_SECOND = {
    1e9: "ns nsec nanosec nanosecond",
    1e6: "us \u00b5s \u03bcs usec microsec microsecond",  # the micro sign, and the Greek letter
    1e3: "ms msec millisec millisecond",
    1: "s sec second",
    1 / 60: "min minute",
    1 / 3600: "h hr hour",
    1 / 86400: "d day",
}
_UNITS = {name: per_second for per_second, names in _PER_SECOND.items() for name in names.split()}
KNOWN_UNITS = "s, ms, us, ns, min, h, d, their names, or one of these since an event"
SINCE = ("since", "from", "after", "relative", "ref", "@")


def unit_of(values: Any) -> str | None:
    """Return the unit that an array has as an attribute, as those of xarray, pint and Astropy do, or None."""
    if hasattr(values, "attrs"):
        named = {str(name).lower(): unit for name, unit in values.attrs.items()}
    else:
        named = {name: getattr(values, name, None) for name in ("units", "unit")}
    unit = named.get("units") or named.get("unit") or ""
    return (unit.decode() if isinstance(unit, bytes) else str(unit)).strip() or None


def per_second(unit: str) -> float | None:
    """Return how many of a unit of time, such as "ms since stimulus", are one second; None for others."""
    words = unit.strip("[]() .").removeprefix("1.0 ").split()  # "1.0 ms" as of neo
    if not words or words[1:2] and words[1] not in SINCE:
        return None
    return _UNITS.get(words[0] if len(words[0]) < 3 else words[0].lower().removesuffix("s"))


def in_seconds(name: str, values: Any) -> Any:
    """Return `timedelta64`, and numbers with the attribute `units` of a time, in seconds; others as is."""
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.dtype.kind == "m":
        return _durations_in_seconds(name, array)
    unit = unit_of(values) if array.dtype.kind in "iuf" else None
    ratio = None if unit is None else per_second(unit)
    return values if ratio is None else array if ratio == 1 else array / ratio


def _durations_in_seconds(name: str, durations: Any) -> Any:
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


def read_variables(
    dataset: Any,
    names: Mapping[str, Sequence[str]],
    single: Mapping[str, str | None],
    *,
    trials: Any,
    axes: tuple[str, str],
    dt: float | None,
) -> tuple[dict[str, Any], dict[str, float]]:
    """Read the arrays of variables by argument, with trials first and time second; and `dt` and `start`."""
    for argument, each in names.items():
        checks.check_instance(argument, each, (list, tuple), "names of variables, such as ['stimulus']")
    wanted = {argument: list(each) for argument, each in names.items()}
    wanted |= {argument: [] if name is None else [name] for argument, name in single.items()}
    with _opened(dataset) as opened:
        if len(axes) != 2 or not set(axes) <= set(opened.dims):
            known = sorted(map(str, opened.dims))
            raise ValueError(f"`axes` must be two axes of the dataset, {known}, got {axes!r}.")
        times = _times(axes[1], opened[axes[1]].load() if axes[1] in opened.coords else None, dt)
        selected = opened.isel({axes[0]: slice(None) if trials is None else trials})
        arrays: dict[str, Any] = {
            argument: {name: _read(argument, selected, name, axes) for name in listed}
            for argument, listed in wanted.items()
        }
    return arrays | {argument: next(iter(arrays[argument].values()), None) for argument in single}, times


@contextlib.contextmanager
def _opened(dataset: Any) -> Iterator[Any]:
    """Open a dataset, or a file, which errors name; times keep their numbers and units."""
    import xarray

    if not isinstance(dataset, str | os.PathLike):
        checks.check_instance("dataset", dataset, xarray.Dataset, "an xarray.Dataset, or the path of a file")
        yield dataset
        return
    try:
        opened = xarray.open_dataset(dataset, decode_times=False)
    except Exception as error:  # of any library, and of any kind where a file is damaged
        raise ValueError(
            '`dataset` must be a file that xarray reads, NetCDF (pip install "popsim[netcdf]") or zarr; '
            f"arrays of others are given to StoredTrials itself. Got {os.fsdecode(dataset)}: "
            f"{type(error).__name__}: {one_line(error)[:300]}"
        ) from error
    with opened:
        yield opened


def _read(argument: str, dataset: Any, name: str, axes: tuple[str, str]) -> np.ndarray:
    variable = dataset[name]
    if axes[0] not in variable.dims:
        raise ValueError(f"`{argument}` must have the axis {axes[0]!r}, got {name!r} of {variable.dims}.")
    leading = [axis for axis in axes if axis in variable.dims]
    array = np.asarray(in_seconds(f"{argument}[{name!r}]", variable.transpose(*leading, ...).load()))
    # A series of one channel is often stored without an axis of channels.
    is_bare = len(leading) == 2 and array.ndim == 2 and argument != "mask"
    return array[..., None] if is_bare else array


def _times(axis: str, times: Any, dt: Any) -> dict[str, float]:
    """Return the time step that is given, or that of the coordinate of time, and its start, in seconds."""
    seconds, unit = (None, "") if times is None else _seconds(axis, times)
    if dt is not None:
        checks.check_time_step(dt)
    if seconds is None:
        if dt is None:
            raise ValueError(f"`dt` must be given where {axis!r} has no steps in {KNOWN_UNITS}{unit}.")
        return {"dt": dt, "start": 0.0}
    steps, step = np.diff(seconds), float((seconds[-1] - seconds[0]) / (seconds.size - 1))
    if dt is None:
        if not np.all(np.abs(steps - step) < 1e-3 * abs(step)):
            raise ValueError(
                f"`dt` must be that of even time steps, got {axis!r} with steps of {steps.min():.6g} to "
                f"{steps.max():.6g} s."
            )
        if not unit and step >= 1:
            raise ValueError(
                f'`dt` must be given in seconds where {axis!r} has no attribute `units`, such as "ms", and '
                f"its steps are no fraction of a second, got steps of {step:g}."
            )
        return {"dt": float(f"{step:.9g}"), "start": float(seconds[0])}
    expected = seconds[0] + dt * np.arange(seconds.size)
    if abs(step - dt) >= 0.01 * dt or not np.all(np.abs(seconds - expected) < 0.5 * dt):
        is_even = np.all(np.abs(steps - step) < 0.5 * abs(step))
        given = f"{step:.6g}" if is_even else f"{steps.min():.6g} to {steps.max():.6g}"
        differs = f"{axis!r} has steps of {given} s{unit}, `dt` is {dt:g} s"
        if unit:
            raise ValueError(f"`dt` must be the step of time of the dataset, got others: {differs}.")
        checks.warn_caller(
            f"{differs}, which is taken: give {axis!r} the attribute `units` if it has a unit."
        )
        return {"dt": dt, "start": 0.0}
    return {"dt": dt, "start": float(seconds[0])}


def _seconds(axis: str, times: Any) -> tuple[np.ndarray | None, str]:
    """Return the coordinate of time in seconds, or None, and its unit in brackets; without one it is s.

    Dates are counted from the first one.
    """
    values, unit = times.values, unit_of(times)
    named = "" if unit is None else f" ({short_repr(unit)})"
    if values.ndim != 1 or values.size < 2:
        return None, named
    if values.dtype.kind in "mM":
        durations = values - values[0] if values.dtype.kind == "M" else values
        return _durations_in_seconds(axis, durations), f" ({values.dtype})"
    ratio = 1 if unit is None else per_second(unit)
    return (None if ratio is None else values.astype(float) / ratio), named
