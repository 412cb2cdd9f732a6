"""The layout of the history of a cell: its rows and arrays, also as text."""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

__all__ = ["Batches", "CellLayout"]

Form = tuple[tuple[str, ...], tuple[int, ...], str]
"""The axes of an array, their lengths, and its dtype."""


@dataclasses.dataclass(frozen=True)
class Batches(Sequence[int]):
    """Increasing numbers of batches, which take no memory until they are asked for.

    - `ranges`: the numbers as ranges.
    """

    ranges: tuple[range, ...]

    @classmethod
    def of(cls, numbers: Sequence[int]) -> "Batches":
        """Return increasing `numbers`, in as few ranges as there are changes of their distance."""
        ranges: list[range] = []
        for number in numbers:
            last = ranges[-1] if ranges else None
            if last is None or (len(last) > 1 and number - last[-1] != last.step):
                ranges.append(range(number, number + 1))
            else:
                ranges[-1] = range(last[0], number + 1, number - last[-1])
        return cls(tuple(ranges))

    @classmethod
    def parse(cls, ranges: Sequence[Sequence[int]]) -> "Batches":
        """Invert `to_json`."""
        return cls(tuple(range(first, last + 1, max(1, step)) for first, last, step in ranges))

    @property
    def to_json(self) -> list[list[int]]:
        """The ranges as JSON values."""
        return [[part[0], part[-1], part.step if len(part) > 1 else 0] for part in self.ranges]

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __iter__(self) -> Iterator[int]:
        for part in self.ranges:
            yield from part

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return list(self)[index]


@dataclasses.dataclass(frozen=True)
class CellLayout:
    """What the history of a cell holds.

    - `rows`: by axis of rows, such as "batch", the numbers of its batches.
    - `arrays`: by variable, its axes, the lengths of these, and its dtype.
    - `terms`: the terms of the loss.
    """

    rows: Mapping[str, Batches]
    arrays: Mapping[str, Form]
    terms: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.text)

    @functools.cached_property
    def text(self) -> str:
        """The layout as JSON."""
        rows = {axis: batches.to_json for axis, batches in self.rows.items()}
        return json.dumps({"rows": rows, "arrays": self.arrays, "terms": self.terms}, sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> "CellLayout":
        """Return the layout in a `text`."""
        described = json.loads(text)
        rows = {axis: Batches.parse(ranges) for axis, ranges in described["rows"].items()}
        arrays = {
            name: (tuple(axes), tuple(shape), dtype)
            for name, (axes, shape, dtype) in described["arrays"].items()
        }
        return cls(rows, arrays, tuple(described["terms"]))
