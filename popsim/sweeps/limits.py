"""The axes and seeds of a sweep as plain values, and how large it may be: a few letters ask for billions."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from popsim._shared.checks import LARGEST_INT
from popsim._shared.plain_values import check_finite_value, plain_value
from popsim.experiments import AbstractExperiment
from popsim.experiments.settings import as_setting, setting_types

__all__ = ["MOST_CELLS", "MOST_VALUES", "as_axes", "as_seeds", "check_extent"]

MOST_VALUES = 2000  # of an axis
MOST_CELLS = 20_000


def as_axes(kind: type[AbstractExperiment], axes: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each axis as settings of an experiment, see `as_setting`."""
    if not isinstance(axes, Mapping):
        raise ValueError(f"`axes` must be lists of values by setting, got {axes!r:.100}.")
    types = setting_types(kind)
    return {str(name): _axis(name, values, types.get(name, Any)) for name, values in axes.items()}


def _axis(name: str, values: Any, kind: Any) -> tuple[Any, ...]:
    argument = f"axes[{name!r}]"
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ValueError(f"`{argument}` must be a list of values, got {values!r:.100}.")
    listed = list(itertools.islice(values, MOST_VALUES + 1))  # it may be without end
    if len(listed) > MOST_VALUES:
        raise ValueError(f"`{argument}` must have at most {MOST_VALUES} values, got more.")
    settings = tuple(as_setting(f"{argument}[{at}]", value, kind) for at, value in enumerate(listed))
    check_finite_value(argument, settings)
    if not settings:
        raise ValueError(f"`{argument}` must have at least one value, got none.")
    keys: set[Any] = set()
    for value in settings:
        if (key := _hashable(value)) in keys:
            raise ValueError(f"`{argument}` must have different values, got {value!r:.100} twice.")
        keys.add(key)
    return settings


def _hashable(value: Any) -> Any:
    """Return what is equal for equal values."""
    if isinstance(value, dict):
        return frozenset((name, _hashable(each)) for name, each in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def as_seeds(seeds: Any) -> range:
    """Return the seeds of a sweep, a range or whole numbers in order, as a range."""
    numbers = seeds if isinstance(seeds, range) else plain_value("seeds", seeds)
    if isinstance(numbers, tuple) and numbers and all(type(number) is int for number in numbers):
        consecutive = range(numbers[0], numbers[0] + len(numbers))
        numbers = consecutive if tuple(consecutive) == numbers else None
    if not isinstance(numbers, range) or numbers.step != 1 or numbers.start < 0 or not numbers:
        raise ValueError(
            f"`seeds` must be whole numbers without gaps, such as range(20), got {seeds!r:.100}."
        )
    if numbers.stop - 1 > LARGEST_INT:
        raise ValueError(f"`seeds` must be below 2**31, got {numbers.stop - 1}.")
    return numbers


def check_extent(what: str, n: int, most: int, advice: str) -> None:
    """Check how many members, or cells, a sweep has, before any is made."""
    if n > most:
        raise ValueError(f"a sweep must have at most {most} {what}, got {n}: give {advice}.")
