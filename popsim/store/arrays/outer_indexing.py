"""Which chunks an index of an array touches, axis by axis."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

Where = slice | np.ndarray
Part = tuple[int, Where, Where]
Place = tuple[int, ...]


def parts_of_axis(key: Any, length: int, chunk: int) -> list[Part]:
    """The chunks along one axis that hold the entries at `key`.

    **Arguments:**

    - `key`: an integer, a slice or an array of indices.
    - `length`: of the axis.
    - `chunk`: how many entries a chunk has.

    **Returns:** for each chunk its number, which of its entries, and where in the result these belong; the
    result has an axis of length 1 for an integer.
    """
    if isinstance(key, int | np.integer):
        return [(int(key) // chunk, slice(key % chunk, key % chunk + 1), slice(0, 1))]
    if isinstance(key, slice):
        indices = range(length)[key]
        if indices.step == 1:
            return list(_contiguous(indices.start, indices.stop, chunk))
    else:
        indices = key
    return list(_scattered(np.asarray(indices, int), chunk))


def touched(parts: list[list[Part]]) -> Iterator[tuple[Place, tuple[Where, ...], tuple[Where, ...]]]:
    """All chunks that are touched: their place, what of them, and where in the result that belongs."""
    for combined in itertools.product(*parts):
        numbers, inside, outside = zip(*combined, strict=True) if combined else ((), (), ())
        yield numbers, _index(inside), _index(outside)


def _contiguous(start: int, stop: int, chunk: int) -> Iterator[Part]:
    for number in range(start // chunk, -(-stop // chunk) if stop > start else 0):
        begin, end = max(start, number * chunk), min(stop, (number + 1) * chunk)
        yield number, slice(begin - number * chunk, end - number * chunk), slice(begin - start, end - start)


def _scattered(indices: np.ndarray, chunk: int) -> Iterator[Part]:
    numbers = indices // chunk
    order = np.argsort(numbers, kind="stable")
    changes = np.flatnonzero(np.diff(numbers[order])) + 1
    for group in np.split(order, changes) if len(order) else ():
        number = int(numbers[group[0]])
        yield number, indices[group] - number * chunk, group


def _index(where: tuple[Where, ...]) -> tuple[Any, ...]:
    """One index of all axes; where one is an array, all must be."""
    if all(isinstance(part, slice) for part in where):
        return where
    return np.ix_(*(np.arange(part.start, part.stop) if isinstance(part, slice) else part for part in where))
