"""Trials in datasets of xarray, and in the files that it opens."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from popsim._checks import check_instance, kind_of, short_repr
from popsim._text_checks import suggestion

IN_SECONDS = {"ms": 1e-3, "msec": 1e-3, "millisecond": 1e-3, "us": 1e-6, "µs": 1e-6, "microsecond": 1e-6}


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
    import xarray

    with contextlib.ExitStack() as opened:
        if isinstance(dataset, str | os.PathLike):
            dataset = opened.enter_context(xarray.open_dataset(dataset))
        check_instance("dataset", dataset, xarray.Dataset, "an xarray.Dataset, or the path of a file")
        for axis in axes:
            if axis not in dataset.dims:
                raise ValueError(
                    f"`axes` must be axes of the dataset, {sorted(map(str, dataset.dims))}, got {axis!r}."
                )
        step = _time_step(dataset, axes[1]) if dt is None else dt
        selected = dataset if trials is None else dataset.isel({axes[0]: trials})
        arrays: dict[str, Any] = {}
        for argument, each in names.items():
            check_instance(argument, each, (list, tuple), "names of variables, such as ['stimulus']")
            arrays[argument] = {name: _read(argument, selected, name, axes) for name in each}
        for argument, name in single.items():
            arrays[argument] = None if name is None else _read(argument, selected, name, axes)
    return arrays, step


def _read(argument: str, dataset: Any, name: str, axes: tuple[str, str]) -> np.ndarray:
    if name not in dataset.variables:
        known = [str(each) for each in dataset.variables]
        raise ValueError(
            f"`{argument}` must be names of variables of the dataset, {known}, got {short_repr(name)}."
            f"{suggestion(str(name), known)}"
        )
    variable = dataset[name]
    leading = [axis for axis in axes if axis in variable.dims]
    if axes[0] not in variable.dims:
        raise ValueError(f"`{argument}` must have the axis {axes[0]!r}, got {name!r} of {variable.dims}.")
    array = variable.transpose(*leading, ...).values
    # A series of one channel is often stored without an axis of channels.
    is_bare = len(leading) == 2 and array.ndim == 2 and argument != "mask"
    return array[..., None] if is_bare else array


def _time_step(dataset: Any, axis: str) -> float:
    """Return the step of the coordinate of time, in seconds."""
    if axis not in dataset.coords:
        raise ValueError(f"`dt` must be given where the dataset has no coordinate {axis!r}, got None.")
    times = dataset[axis].values
    if np.issubdtype(times.dtype, np.timedelta64):
        times = times / np.timedelta64(1, "s")
    if times.size < 2 or not np.issubdtype(times.dtype, np.number):
        raise ValueError(f"`dt` must be given where {axis!r} has no steps, got {kind_of(times)}.")
    steps = np.diff(times.astype(float))
    step = float(np.median(steps))
    if not np.all(np.abs(steps - step) < 1e-3 * abs(step)):
        raise ValueError(
            f"`dt` must be that of even time steps, got {axis!r} with steps of {steps.min():.6g} to "
            f"{steps.max():.6g} s."
        )
    unit = str(dataset[axis].attrs.get("units", "s"))
    step = step * IN_SECONDS.get(unit if unit in IN_SECONDS else unit.removesuffix("s"), 1.0)
    return float(f"{step:.9g}")
