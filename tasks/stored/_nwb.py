"""Trials in files of NWB 2 (nwb.org), read by h5py alone: spikes, series and columns of trials."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from popsim._shared.checks import check_instance, check_time_step, short_repr, warn_caller
from popsim._shared.text_checks import one_line
from popsim.trial import RecordedActivity

TRIALS = "intervals/trials"
TOLERANCE = 1e-6  # s, or steps: times of a session are rounded
LONGEST_GAP = 10  # samples


class TrialSteps(NamedTuple):
    """Of each trial its row, begin and number of steps; of all steps, one trial after the other, the ends.

    Times are in s of the session.
    """

    rows: Int[np.ndarray, " trial"]
    begin: Float[np.ndarray, " trial"]
    lengths: Int[np.ndarray, " trial"]
    starts: Float[np.ndarray, " step"]
    stops: Float[np.ndarray, " step"]

    def of_trials(self, values: Shaped[np.ndarray, "step feature"]) -> list[np.ndarray]:
        """Return values of all time steps as a list with an array for each trial."""
        return np.split(values, np.cumsum(self.lengths)[:-1])


def read_nwb(
    path: Any,
    inputs: Any,
    targets: str | None,
    conditions: Sequence[str],
    *,
    dt: float,
    align: str,
    window: tuple[float, float] | None,
    trials: Any,
    units: Any,
    events: Sequence[str],
) -> dict[str, Any]:
    """Return the arguments of `StoredTrials`; those here are of `StoredTrials.from_nwb`."""
    check_time_step(dt)
    check_instance(
        "inputs", inputs, (list, tuple, Mapping), 'names, such as ["hand"], or a dictionary of them'
    )
    named = inputs if isinstance(inputs, Mapping) else {name: name for name in inputs}
    with _opened(path) as file:
        table = file[TRIALS]
        steps = _time_steps(table, dt, align, window, _rows("trials", table, trials))
        since_begin = {name: _column("events", table, name)[steps.rows] - steps.begin for name in events}
        return {
            "inputs": {key: _series(f"inputs[{key!r}]", file, name, steps) for key, name in named.items()},
            "targets": None if targets is None else _series("targets", file, targets, steps),
            "conditions": {name: _labels(table, name)[steps.rows] for name in conditions},
            "events": {
                name: np.where((times >= 0) & (times <= steps.lengths * dt), times, np.nan)
                for name, times in since_begin.items()
            },
            "recordings": _spike_counts(file, units, steps),
        }


@contextlib.contextmanager
def _opened(path: Any) -> Iterator[Any]:
    """Open a file; raise `ValueError` unless it is one of NWB 2 with trials."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"NWB files need `pip install popsim[netcdf]`: {error}") from None
    try:
        opened: Any = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(
            f"`path` must be a file of NWB 2 in HDF5, got {os.fsdecode(path)}: {one_line(error)[:300]}"
        ) from error
    with opened as file:
        version = file.attrs.get("nwb_version", "1, or no NWB")  # which NWB 1 has in a dataset
        version = version.decode() if isinstance(version, bytes) else version
        if not version.startswith("2"):
            raise ValueError(f"`path` must be a file of NWB 2, got {os.fsdecode(path)} of version {version}.")
        if TRIALS not in file:
            found = sorted(file.get("intervals", ()))
            raise ValueError(f"`path` must have trials in {TRIALS}, got the tables {found} in intervals.")
        yield file


def _time_steps(
    table: Any, dt: float, align: str, window: tuple[float, float] | None, rows: Int[np.ndarray, " row"]
) -> TrialSteps:
    """Return the time steps of trials, but of those whose begin or end is not known."""
    event = _column("align", table, align)[rows].astype(float)
    begin = event if window is None else event + window[0]
    end = _column("align", table, "stop_time")[rows].astype(float) if window is None else event + window[1]
    known = np.isfinite(begin) & np.isfinite(end)
    if not known.all():
        warn_caller(f"{np.sum(~known)} of {rows.size} trials without {align!r} or an end are left out.")
    rows, begin, end = rows[known], begin[known], end[known]
    lengths = np.floor((end - begin) / dt + TOLERANCE).astype(int)
    if not rows.size or lengths.min() < 1:
        short = f"trials {rows[lengths < 1][:8].tolist()}" if rows.size else "any trial"
        raise ValueError(
            f"`window` must leave a time step or more after {align!r}, got {window}: nothing of {short}."
        )
    edges = [first + dt * np.arange(n + 1) for first, n in zip(begin, lengths, strict=True)]
    starts, stops = (np.concatenate([each[part] for each in edges]) for part in (slice(-1), slice(1, None)))
    return TrialSteps(rows, begin, lengths, starts, stops)


def _columns(table: Any) -> dict[str, Any]:
    """Return the columns of a table with one entry for each row, not lists of them."""
    lists = {name for name in table if f"{name}_index" in table}
    lists |= {f"{name}_index" for name in lists}
    size = table["id"].shape
    return {name: each for name, each in table.items() if name not in lists and each.shape[:1] == size}


def _column(argument: str, table: Any, name: str) -> Shaped[np.ndarray, "row ..."]:
    columns = _columns(table)
    if name not in columns:
        raise ValueError(f"`{argument}` must be of the columns {sorted(columns)}, got {name!r}.")
    values = columns[name]
    return (values.asstr() if values.dtype.kind in "OS" else values)[:]


def _labels(table: Any, name: str) -> Shaped[np.ndarray, "row ..."]:
    """Return a column as labels of trials; text as numbers, in alphabetical order."""
    labels = _column("conditions", table, name)
    return np.unique(labels, return_inverse=True)[1] if labels.dtype.kind in "OUT" else labels


def _rows(argument: str, table: Any, selection: Any) -> Int[np.ndarray, " row"]:
    """Return the numbers of the rows that have the values of columns, or that are given."""
    rows = np.arange(table["id"].size)
    if not isinstance(selection, Mapping):
        try:
            return rows if selection is None else rows[list(selection)]
        except (IndexError, TypeError) as error:
            raise ValueError(
                f"`{argument}` must be numbers of rows, 0 to {rows.size - 1}, a bool for each, or values of "
                f"columns, got {short_repr(selection)}: {error}."
            ) from None
    for name, wanted in selection.items():
        values = _column(argument, table, name)
        if not np.isin(wanted, values).all():
            known = short_repr(np.unique(values).tolist())
            raise ValueError(f"`{argument}[{name!r}]` must be values that occur, {known}, got {wanted!r}.")
        rows = rows[np.isin(values[rows], wanted)]
    return rows


def _series(argument: str, file: Any, name: str, steps: TrialSteps) -> list[np.ndarray]:
    """Return a series in the middle of each time step, or a column of the trials throughout each."""
    places = [f"{TRIALS}/{column}" for column in _columns(file[TRIALS])]

    def add(place: str, item: Any) -> None:
        if hasattr(item, "keys") and "data" in item and ("timestamps" in item or "starting_time" in item):
            places.append(place)

    file.visititems(add)
    found = [place for place in places if f"/{place}".endswith(f"/{name.strip('/')}")]
    if len(found) != 1:
        raise ValueError(
            f"`{argument}` must be the name or the path of one of {places}, got {name!r}, "
            f"which is {f'that of {found}' if found else 'none of them'}."
        )
    if found[0].startswith(TRIALS):
        values = _column(argument, file[TRIALS], found[0].rpartition("/")[2])[steps.rows]
        return steps.of_trials(np.repeat(values.reshape(len(values), -1), steps.lengths, axis=0))
    return steps.of_trials(_interpolated(argument, file[found[0]], steps))


def _interpolated(argument: str, series: Any, steps: TrialSteps) -> Float[np.ndarray, "step channel"]:
    data, middles = series["data"], (steps.starts + steps.stops) / 2
    if "timestamps" in series:
        times = series["timestamps"][:].astype(float)
    else:
        start = series["starting_time"]
        times = start[()] + np.arange(len(data)) / start.attrs["rate"]
    within = np.clip(middles, times[0], times[-1]) if times.size else middles
    middles = np.where(np.abs(middles - within) < TOLERANCE, within, middles)
    gaps, place = np.diff(times), np.searchsorted(times, middles)
    place[np.isin(middles, times[:1])] = 1
    usual = np.median(gaps) if gaps.size else 0.0
    missing = np.concatenate([[True], gaps > LONGEST_GAP * usual, [True]])[place]
    if missing.any():
        trials = np.unique(np.repeat(steps.rows, steps.lengths)[missing])
        raise ValueError(
            f"`{argument}` must cover the trials, got {series.name} without samples at "
            f"{middles[missing][0]:.6g} s and others, in {trials.size} trials such as "
            f"{trials[:8].tolist()}: leave these out by `trials`."
        )
    part = slice(place.min() - 1, place.max() + 1)
    scale = data.attrs.get("conversion", 1.0)
    scale = scale * (series["channel_conversion"][:] if "channel_conversion" in series else 1.0)
    values = data[part].reshape(len(times[part]), -1) * scale + data.attrs.get("offset", 0.0)
    return np.stack([np.interp(middles, times[part], channel) for channel in values.T], axis=1)


def _spike_counts(file: Any, units: Any, steps: TrialSteps) -> dict[str, Any]:
    """Return the spikes in each time step, as a recording; without units none."""
    if "units/spike_times" not in file:
        if units is None or not len(units):
            return {}
        raise ValueError(f"`units` must be [] where the file has no spike times, got {short_repr(units)}.")
    table = file["units"]
    chosen = _rows("units", table, units)
    counts = np.zeros((steps.starts.size, chosen.size), int)
    is_observed = np.ones(counts.shape, bool)
    for column, unit in enumerate(chosen.tolist()):
        spikes = np.sort(_list_of(table, "spike_times", unit))
        counts[:, column] = np.searchsorted(spikes, steps.stops) - np.searchsorted(spikes, steps.starts)
        if "obs_intervals" in table:
            first, last = np.sort(_list_of(table, "obs_intervals", unit), axis=0).T
            begun = np.searchsorted(first, steps.starts + TOLERANCE)
            is_observed[:, column] = begun > np.searchsorted(last, steps.stops - TOLERANCE)
    if (silent := chosen[~np.any(counts * is_observed, axis=0)]).size:
        warn_caller(
            f"{silent.size} of {chosen.size} units have no spike in these trials, such as unit {silent[0]}: "
            "leave them out by `units`."
        )
    recorded = steps.of_trials(counts)
    if not is_observed.all():
        recorded = list(map(RecordedActivity, recorded, steps.of_trials(is_observed)))
    return {"spikes": recorded} if chosen.size else {}


def _list_of(table: Any, name: str, row: int) -> Float[np.ndarray, "entry ..."]:
    """Return the entries of a row of a column of lists, in float64."""
    first, last = (table[f"{name}_index"][row - 1] if row else 0), table[f"{name}_index"][row]
    return table[name][int(first) : int(last)].astype(float)
