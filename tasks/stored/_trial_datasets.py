"""Trials in datasets of xarray, and in the files that it opens."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from popsim._checks import (
    check_instance,
    check_time_step,
    is_number,
    is_numeric,
    kind_of,
    memory_of_machine,
    short_repr,
    warn_caller,
)
from popsim._text_checks import one_line, suggestion
from popsim.tasks.stored._time_units import KNOWN_UNITS, durations_in_seconds, in_seconds, per_second, unit_of
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
    """Read the arrays of some variables, with trials first and time second.

    **Arguments:**

    - `dataset`: an `xarray.Dataset`, or the path of a file.
    - `names`, `single`: names of variables by argument; of several, and of one or none.
    - `trials`, `axes`, `dt`: as for `StoredTrials.from_dataset`.

    **Returns:** the arrays by argument, and the time step in seconds.
    """
    for argument, each in names.items():
        check_instance(argument, each, (list, tuple), "names of variables, such as ['stimulus']")
    wanted = {argument: list(each) for argument, each in names.items()}
    wanted |= {argument: [] if name is None else [name] for argument, name in single.items()}
    with _opened(dataset) as (opened, source):
        if not isinstance(axes, list | tuple) or len(set(axes)) != 2:
            raise ValueError(f"`axes` must be the names of two axes, of trials and time, got {axes!r}.")
        for axis in axes:
            if axis not in opened.dims:
                raise ValueError(
                    f"`axes` must be axes of the dataset, {sorted(map(str, opened.dims))}, got {axis!r}."
                )
        for argument, listed in wanted.items():
            for name in listed:
                _check_variable(argument, opened, name, axes)
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
        check_instance("dataset", dataset, xarray.Dataset, "an xarray.Dataset, or the path of a file")
        yield dataset, str(dataset.encoding.get("source", "the dataset"))
        return
    source = os.fsdecode(dataset)
    if "://" not in source:
        _check_plain(Path(source).expanduser())
    with contextlib.ExitStack() as stack:
        with _naming(source):
            opened = stack.enter_context(xarray.open_dataset(source, decode_times=False))
        yield opened, source


def _check_plain(path: Path) -> None:
    """Raise `ValueError` unless a path leads to a file, or a folder; one of zarr holds nothing else."""
    is_zarr = any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zmetadata"))
    for part in (path, *(path.rglob("*") if is_zarr else ())):
        if not (part.is_file() or part.is_dir()):  # who opens a pipe waits until somebody writes into it
            kind = "a pipe or a device" if part.exists() else "which does not exist"
            raise ValueError(f"`dataset` must be the path of a file, got {part}, {kind}.")


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


def _check_variable(argument: str, dataset: Any, name: Any, axes: tuple[str, str]) -> None:
    if name not in dataset.variables:
        known = [str(each) for each in dataset.variables]
        raise ValueError(
            f"`{argument}` must be names of variables of the dataset, {known}, got {short_repr(name)}."
            f"{suggestion(str(name), known)}"
        )
    if axes[0] not in (found := dataset[name].dims):
        raise ValueError(f"`{argument}` must have the axis {axes[0]!r}, got {name!r} of {found}.")


def _trials(trials: Any, n_trials: int) -> Any:
    """Return the index of the trials to read."""
    if trials is None:
        return slice(None)
    if not isinstance(trials, slice):
        return numbers_of_trials("trials", trials, n_trials, "or a slice")
    try:
        n_selected = len(range(n_trials)[trials])
    except (TypeError, ValueError) as error:
        raise ValueError(f"`trials` must be a slice of whole numbers, got {trials}: {error}.") from None
    if not n_selected:
        raise ValueError(f"`trials` must be some of {n_trials} trials, 0 to {n_trials - 1}, got {trials}.")
    return trials


def _check_memory(dataset: Any, names: set[str], source: str) -> None:
    """Warn of what takes more than half of the memory; raise `MemoryError` if it exceeds it."""
    n_bytes, memory = sum(dataset[name].nbytes for name in names), memory_of_machine()
    if memory is None or n_bytes <= memory / 2:
        return
    read = f"{n_bytes / 1e9:.3g} GB of {', '.join(sorted(names))} of {source}"
    advice = "give `trials` to read some of the trials."
    if n_bytes > memory:
        raise MemoryError(f"{read} must fit into the memory of {memory / 1e9:.3g} GB: {advice}")
    warn_caller(f"{read} are read, more than half of the memory of {memory / 1e9:.3g} GB: {advice}")


def _read(argument: str, dataset: Any, name: str, axes: tuple[str, str], source: str) -> np.ndarray:
    variable = dataset[name]
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
        of_unit = f"no steps in a unit of time, {KNOWN_UNITS}"
        raise ValueError(
            f"`dt` must be given where {axis!r} has {of_unit}, got {kind_of(times.values)}{unit}."
        )
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
    """Return a time step that is given; raise `ValueError` if the coordinate of time has other steps.

    **Warns:** instead, if the coordinate has no unit, as its numbers may be those of time steps.
    """
    check_time_step(dt)
    seconds, unit = (None, "") if times is None else _seconds(axis, times)
    if seconds is None or not is_number(dt):
        return dt
    expected = seconds[0] + dt * np.arange(seconds.size)
    mean = (seconds[-1] - seconds[0]) / (seconds.size - 1)
    if np.all(np.abs(seconds - expected) < 0.5 * dt) and abs(mean - dt) < 0.01 * dt:
        return dt
    differs = f"{axis!r} has steps of {float(mean):.6g} s{unit}, `dt` is {dt:g} s"
    if unit:
        raise ValueError(f"`dt` must be the step of time of the dataset, got others: {differs}.")
    warn_caller(f"{differs}, which is taken: give {axis!r} the attribute `units` if it has a unit.")
    return dt


def _seconds(axis: str, times: Any) -> tuple[np.ndarray | None, str]:
    """Return the coordinate of time in seconds, and its unit in brackets; None if it has none that is known.

    Numbers without a unit are seconds.
    """
    values, unit = times.values, unit_of(times)
    named = "" if unit is None else f" ({short_repr(unit)})"
    if values.ndim != 1 or values.size < 2:
        return None, named
    if values.dtype.kind in "mM":
        return durations_in_seconds(axis, values - values[0]), f" ({values.dtype})"
    ratio = 1 if unit is None else per_second(unit)
    if ratio is None or not is_numeric(values.dtype) or values.dtype == bool:
        return None, named
    return values.astype(float) / ratio, named
