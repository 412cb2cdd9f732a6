"""Times in other units than seconds: durations of NumPy, and numbers with a unit of time."""

import re
import unicodedata
from typing import Any

import numpy as np

from popsim._checks import short_repr

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
    """Return how many of a unit of time are one second; None for what is none.

    Case distinguishes symbols, as Ms and S are none, but not names. "ms since stimulus" is ms.
    """
    text = unicodedata.normalize("NFKC", unit)  # the micro sign becomes the Greek letter
    text = text.strip("[]() .").removeprefix("1.0 ")  # as of neo
    since = _SINCE.fullmatch(text)
    name = since["unit"] if since else text
    name = name if len(name) < 3 else name.lower()
    return _UNITS.get(name.removesuffix("s") if len(name) > 2 else name)


def in_seconds(name: str, values: Any) -> Any:
    """Return numbers in seconds if they are times of another unit, and anything else as it is.

    They are times if their type is `timedelta64`, or their attribute `units` is a unit of time.
    """
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
