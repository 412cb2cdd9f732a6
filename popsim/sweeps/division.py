"""How the members of a sweep are divided into cells, as it is written down in `sweep.json`."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Division", "divide"]


@dataclasses.dataclass(frozen=True)
class Division:
    """The division of each population of a sweep into cells: every piece of values with every piece of seeds.

    - `axes`: by axis along which the members of a cell may differ, how many values are in each piece.
    - `seeds`: how many seeds are in each piece.

    Along all other axes each value has cells of its own.
    """

    axes: Mapping[str, tuple[int, ...]]
    seeds: tuple[int, ...]

    def to_json(self, axes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Return the division of a sweep over `axes` as JSON values."""
        return {
            "cell_axes": [name for name in axes if name not in self.axes],
            "member_axes": {name: list(lengths) for name, lengths in self.axes.items()},
            "seeds": list(self.seeds),
        }

    @classmethod
    def parse(cls, described: Any, axes: Mapping[str, Sequence[Any]], n_seeds: int) -> "Division":
        """Return a division of a sweep over `axes` from its `to_json`."""
        pieces = {
            name: tuple(described["member_axes"][name]) for name in axes if name in described["member_axes"]
        }
        division = cls(pieces, tuple(described["seeds"]))
        totals = {name: sum(lengths) for name, lengths in [*pieces.items(), ("seeds", division.seeds)]}
        if totals != {**{name: len(axes[name]) for name in pieces}, "seeds": n_seeds}:
            raise ValueError("its division must have each value and each seed once.")
        return division


def divide(axes: Mapping[str, Sequence[Any]], seeds: range, most: int | None) -> Division:
    """Divide members into cells of at most `most`, as evenly as possible, along the first axes first.

    **Arguments:**

    - `axes`: the values of the axes along which the members of a cell may differ.
    - `seeds`: the seeds.
    - `most`: the largest number of members of a cell; None for no limit.
    """
    lengths = {name: len(values) for name, values in axes.items()}
    most = most or math.prod(lengths.values()) * len(seeds)
    pieces: dict[str, tuple[int, ...]] = {}
    for place, (name, length) in enumerate(lengths.items()):
        n_per_value = math.prod([*lengths.values()][place + 1 :])
        pieces[name] = _even(length, max(1, most // n_per_value))
    n_per_piece = math.prod(map(max, pieces.values()))
    return Division(pieces, _even(len(seeds), max(1, most // n_per_piece) if n_per_piece <= most else 1))


def _even(n: int, most: int) -> tuple[int, ...]:
    """Divide `n` into numbers of at most `most`, as evenly as possible."""
    n_parts = -(-n // most)
    ends = [n * part // n_parts for part in range(n_parts + 1)]
    return tuple(end - first for first, end in itertools.pairwise(ends))


def cut(values: Any, lengths: Sequence[int]) -> list[Any]:
    """Cut a tuple or a range into consecutive pieces of some lengths."""
    ends = [0, *itertools.accumulate(lengths)]
    return [values[first:end] for first, end in itertools.pairwise(ends)]
