"""The layout of the history of a cell: its rows and arrays, as text from an untrusted source."""

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from popsim.store.files import is_plain_name
from popsim.store.json_files import parse_json

__all__ = ["Batches", "CellLayout"]

LARGEST_TEXT = 2**20
MOST_ROWS = 2**31
MEMBER = "member"
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES += ("float16", "float32", "float64")

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
    def parse(cls, ranges: Any) -> "Batches":
        """Return the batches in lists of a first, a last and a step; raises `ValueError` for others."""
        parsed: list[range] = []
        for numbers in ranges if isinstance(ranges, list) else [None]:
            if not (isinstance(numbers, list) and len(numbers) == 3 and all(map(_is_count, numbers))):
                raise ValueError(f"rows must be ranges of batches, got {numbers!r:.100}.")
            first, last, step = numbers
            if last < first or (last - first) % max(1, step) or (parsed and parsed[-1][-1] >= first):
                raise ValueError(f"rows must be increasing ranges of batches, got {numbers!r:.100}.")
            parsed.append(range(first, last + 1, max(1, step)))
        return cls(tuple(parsed))

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

    @functools.cached_property
    def form(self) -> str:
        """All but the rows, as JSON: what cells that have reached different batches share."""
        arrays = {name: (axes, shape[1:], dtype) for name, (axes, shape, dtype) in self.arrays.items()}
        return json.dumps({"arrays": arrays, "terms": self.terms}, sort_keys=True)

    @functools.cached_property
    def n_members(self) -> int | None:
        """The number of members; None if no array has them."""
        return next(
            (shape[axes.index(MEMBER)] for axes, shape, _ in self.arrays.values() if MEMBER in axes), None
        )

    @functools.cached_property
    def n_batches(self) -> int:
        """The number of batches after which all its rows were recorded."""
        return max(
            (batches.ranges[-1][-1] + 1 for batches in self.rows.values() if batches.ranges), default=0
        )

    def is_part_of(self, later: "CellLayout") -> bool:
        """Whether this may be an earlier layout of the same history: the same arrays, and no further rows."""
        return self.form == later.form and all(
            len(batches) <= len(later.rows.get(axis, ())) for axis, batches in self.rows.items()
        )

    @classmethod
    def parse(cls, text: Any) -> "CellLayout":
        """Return the layout in a `text`; nothing is made of it before its size is known."""
        if not isinstance(text, str) or len(text) > LARGEST_TEXT:
            raise ValueError(f"a layout must be text of at most {LARGEST_TEXT} letters.")
        described = parse_json(text)
        if not isinstance(described, dict) or set(described) != {"rows", "arrays", "terms"}:
            raise ValueError(f"a layout must have rows, arrays and terms, got {described!r:.100}.")
        rows, arrays, terms = (described[name] for name in ("rows", "arrays", "terms"))
        if not (isinstance(rows, dict) and isinstance(arrays, dict) and _are_names(terms)):
            raise ValueError("a layout must have rows and arrays by name, and the names of terms.")
        batches = {axis: Batches.parse(ranges) for axis, ranges in rows.items()}
        return cls(batches, {name: _form(name, form, batches) for name, form in arrays.items()}, tuple(terms))


def _form(name: str, form: Any, rows: Mapping[str, Batches]) -> Form:
    """Return the form of an array of a layout; raises `ValueError` if it is none."""
    if not (isinstance(form, list) and len(form) == 3 and _are_names(form[0]) and _are_counts(form[1])):
        raise ValueError(f"array {name!r:.100} must have axes, a shape and a dtype, got {form!r:.100}.")
    axes, shape, dtype = form
    if not is_plain_name(name) or dtype not in DTYPES or len({*axes}) != len(axes) or len(axes) != len(shape):
        raise ValueError(f"array {name!r:.100} must be numbers with an axis for each length.")
    if not axes or axes[0] not in rows or shape[0] != len(rows[axes[0]]):
        raise ValueError(f"array {name!r:.100} must have the rows of its first axis.")
    return tuple(axes), tuple(shape), dtype


def _is_count(number: Any) -> bool:
    return type(number) is int and 0 <= number <= MOST_ROWS


def _are_counts(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(map(_is_count, numbers))


def _are_names(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)
