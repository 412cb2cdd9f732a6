"""Trials in datasets of xarray, and in the files that it opens."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from popsim import _checks as checks
from popsim._checks import short_repr
from popsim._text_checks import one_line
from popsim.tasks.stored._stored_arrays import (
    KNOWN_UNITS,
    durations_in_seconds,
    in_seconds,
    per_second,
    unit_of,
)
from popsim.tasks.stored._trial_selection import numbers_of_trials


def read_variables(
    dataset: Any,
    names: Mapping[str, Sequence[str]],
    single: Mapping[str, str | None],
    *,
    trials: Any,
    axes: tuple[str, str],
    dt: float | None,
) -> tuple[dict[str, Any], float]:
    """Read the arrays of variables by argument, with trials first and time second, and the step in s."""
    for argument, each in names.items():
        checks.check_instance(argument, each, (list, tuple), "names of variables, such as ['stimulus']")
    wanted = {argument: list(each) for argument, each in names.items()}
    wanted |= {argument: [] if name is None else [name] for argument, name in single.items()}
    with _opened(dataset) as (opened, source):
        if len(axes) != 2 or not set(axes) <= set(opened.dims):
            known = sorted(map(str, opened.dims))
            raise ValueError(f"`axes` must be two axes of the dataset, {known}, got {axes!r}.")
        with _naming(source):
            times = opened[axes[1]].load() if axes[1] in opened.coords else None
        step = _step_of_time(axes[1], times) if dt is None else _agreed_step(axes[1], times, dt)
        selected = opened.isel({axes[0]: _trials(trials, opened.sizes[axes[0]])})
        _check_memory(selected, {name for listed in wanted.values() for name in listed}, source)
        arrays: dict[str, Any] = {
            argument: {name: _read(argument, selected, name, axes, source) for name in listed}
            for argument, listed in wanted.items()
        }
    return arrays | {argument: next(iter(arrays[argument].values()), None) for argument in single}, step


@contextlib.contextmanager
def _opened(dataset: Any) -> Iterator[tuple[Any, str]]:
    """Open a dataset, and say where it is from; times keep the numbers and units of the file."""
    import xarray

    if not isinstance(dataset, str | os.PathLike):
        checks.check_instance("dataset", dataset, xarray.Dataset, "an xarray.Dataset, or the path of a file")
        yield dataset, str(dataset.encoding.get("source", "the dataset"))
        return
    source = os.fsdecode(dataset)
    with contextlib.ExitStack() as stack:
        with _naming(source):
            opened = stack.enter_context(xarray.open_dataset(source, decode_times=False))
        yield opened, source


@contextlib.contextmanager
def _naming(source: Any) -> Iterator[None]:
    """Name the file in errors that xarray, or the library by which it reads, raises."""
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"what is read of {source} must fit into memory: {one_line(error)}") from error
    except Exception as error:  # of any library, and of any kind where a file is damaged
        raise ValueError(
            '`dataset` must be a file that xarray reads, NetCDF (pip install "popsim[netcdf]") or zarr; '
            f"arrays of others are given to StoredTrials itself. Got {source}: {type(error).__name__}: "
            f"{one_line(error)[:300]}"
        ) from error


def _trials(trials: Any, n_trials: int) -> Any:
    """Return the index of the trials to read."""
    if trials is None:
        return slice(None)
    if not isinstance(trials, slice):
        return numbers_of_trials("trials", trials, n_trials, "or a slice")
    if not len(range(n_trials)[trials]):
        raise ValueError(f"`trials` must be some of {n_trials} trials, 0 to {n_trials - 1}, got {trials}.")
    return trials


def _check_memory(dataset: Any, names: set[str], source: str) -> None:
    """Warn of what takes more than half of the memory; raise `MemoryError` if it exceeds it."""
    n_bytes, memory = sum(dataset[name].nbytes for name in names), checks.memory_of_machine()
    if memory is None or n_bytes <= memory / 2:
        return
    read = f"{n_bytes / 1e9:.3g} GB of {', '.join(sorted(names))} of {source}"
    advice = "give `trials` to read some of the trials."
    if n_bytes > memory:
        raise MemoryError(f"{read} must fit into the memory of {memory / 1e9:.3g} GB: {advice}")
    checks.warn_caller(f"{read} are read, more than half of the memory of {memory / 1e9:.3g} GB: {advice}")


def _read(argument: str, dataset: Any, name: str, axes: tuple[str, str], source: str) -> np.ndarray:
    variable = dataset[name]
    if axes[0] not in variable.dims:
        raise ValueError(f"`{argument}` must have the axis {axes[0]!r}, got {name!r} of {variable.dims}.")
    leading = [axis for axis in axes if axis in variable.dims]
    with _naming(source):
        variable = variable.transpose(*leading, ...).load()
    array = np.asarray(in_seconds(f"{argument}[{name!r}]", variable))
    # A series of one channel is often stored without an axis of channels.
    is_bare = len(leading) == 2 and array.ndim == 2 and argument != "mask"
    return array[..., None] if is_bare else array


def _step_of_time(axis: str, times: Any) -> float:
    """Return the step of the coordinate of time, in seconds."""
    if times is None:
        raise ValueError(f"`dt` must be given where the dataset has no coordinate {axis!r}, got None.")
    seconds, unit = _seconds(axis, times)
    if seconds is None:
        raise ValueError(f"`dt` must be given where {axis!r} has no steps in {KNOWN_UNITS}{unit}.")
    steps = np.diff(seconds)
    step = float(np.median(steps))
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
    return float(f"{step:.9g}")


def _agreed_step(axis: str, times: Any, dt: Any) -> float:
    """Return a given time step; other steps of time are refused, or warned of where they have no unit."""
    checks.check_time_step(dt)
    seconds, unit = (None, "") if times is None else _seconds(axis, times)
    if seconds is None or not checks.is_number(dt):
        return dt
    expected = seconds[0] + dt * np.arange(seconds.size)
    mean = (seconds[-1] - seconds[0]) / (seconds.size - 1)
    if np.all(np.abs(seconds - expected) < 0.5 * dt) and abs(mean - dt) < 0.01 * dt:
        return dt
    differs = f"{axis!r} has steps of {float(mean):.6g} s{unit}, `dt` is {dt:g} s"
    if unit:
        raise ValueError(f"`dt` must be the step of time of the dataset, got others: {differs}.")
    checks.warn_caller(f"{differs}, which is taken: give {axis!r} the attribute `units` if it has a unit.")
    return dt


def _seconds(axis: str, times: Any) -> tuple[np.ndarray | None, str]:
    """Return the coordinate of time in seconds, or None, and its unit in brackets; without one it is s."""
    values, unit = times.values, unit_of(times)
    named = "" if unit is None else f" ({short_repr(unit)})"
    if values.ndim != 1 or values.size < 2:
        return None, named
    if values.dtype.kind in "mM":
        return durations_in_seconds(axis, values - values[0]), f" ({values.dtype})"
    ratio = 1 if unit is None else per_second(unit)
    if ratio is None or not checks.is_numeric(values.dtype) or values.dtype == bool:
        return None, named
    return values.astype(float) / ratio, named
