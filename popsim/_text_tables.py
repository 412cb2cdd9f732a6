"""Tables as text, and numbers in them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

Rows = Sequence[Sequence[str]]


def align(rows: Rows, *, at_least: Sequence[int] = (), sides: str = "", gap: int = 2) -> list[str]:
    """Return the rows of a table as lines."""
    widths = column_widths(rows, at_least)
    formats = [f"{side}{width}" for side, width in zip(sides.ljust(len(widths), "<"), widths, strict=True)]
    cells = ([f"{cell:{form}}" for cell, form in zip(row, formats, strict=False)] for row in rows)
    return [(" " * gap).join(row).rstrip() for row in cells]


def column_widths(rows: Rows, at_least: Sequence[int] = ()) -> list[int]:
    """Return the widths of columns; the last cell of a short row widens none, as nothing follows it."""
    n_columns = max(map(len, rows), default=0)
    widths = [*at_least, *[0] * (n_columns - len(at_least))]
    for row in rows:
        counted = row if len(row) == n_columns else row[:-1]
        widths[: len(counted)] = map(max, widths, map(len, counted))
    return widths


def spread_text(values: Float[np.ndarray, " member"], digits: str = ".4g") -> str:
    """Format the mean over members and their range, of those that are finite."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "not finite"
    mean, low, high = (f"{number:{digits}}" for number in (finite.mean(), finite.min(), finite.max()))
    text = mean if values.size == 1 else f"{mean} ({low} to {high})"
    return text if finite.size == values.size else f"{text}, {values.size - finite.size} not finite"


def size_text(n_bytes: int) -> str:
    """Format a number of bytes with three digits, such as "41.9 MB"."""
    size, units = float(n_bytes), ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"
