"""Checks of text and paths, and tables as text, without JAX: commands refuse what is wrong before that."""

import difflib
import math
import os
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any


def suggestion(name: str, names: Collection[str]) -> str:
    """Return a space and a sentence suggesting names spelt alike or of these initials; empty without any."""
    small = {each.lower(): each for each in names}
    initials = [
        each for each in names if re.sub(r"([a-z0-9])[a-z0-9]*[-_ ]?", r"\1", each.lower()) == name.lower()
    ]
    nearest = initials or [small[each] for each in difflib.get_close_matches(name.lower(), small, n=3)]
    return f" Perhaps you meant {' or '.join(nearest)}." if nearest else ""


def one_line(text: object) -> str:
    """Return a text, or the message of an error, on one line."""
    return " ".join(str(text).split())


def error_text(error: BaseException, most_letters: int = 300) -> str:
    """Return the kind and the message of an error on one line, shortened."""
    return shorten(one_line(f"{type(error).__name__}: {error}"), most_letters)


def shorten(text: str, most_letters: int) -> str:
    """Return the beginning of a long text, with dots after it."""
    return text if len(text) <= most_letters else f"{text[:most_letters]} ..."


def count_text(count: int, noun: str) -> str:
    """Return a number of things in words, such as "1 cell" or "2 batches"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded in UTF-8, as one with bytes of another encoding cannot."""
    return not any("\ud800" <= mark <= "\udfff" for mark in text)


def check_path(name: str, path: str | Path) -> None:
    """Check that an argument is a path; nothing at the path is opened."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or not is_utf8(text):
        raise ValueError(f"`{name}` must be a path in UTF-8, got {one_line(repr(path))[:200]}.")


def as_path(name: str, path: str | Path) -> Path:
    """Return an argument as a path that passes `check_path`."""
    check_path(name, path)
    return Path(path)


def as_word(path: Path) -> str:
    """Return a path as a word of a command: quoted where a shell needs it, and no option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


_REORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # Unicode Annex 9, table 4


def has_control_characters(text: str) -> bool:
    """Whether a text has characters that end a line, move the cursor, or show other characters reordered."""
    return any(
        unicodedata.category(mark) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(mark) in _REORDERING
        for mark in text
    )


def printable(text: str) -> str:
    """Return a text with "?" for what is not printable: in a forged text it may command a terminal."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)


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


def spread_text(values: Iterable[Any], digits: str = ".4g") -> str:
    """Format the mean over members and their range, of those that are finite."""
    numbers = [float(value) for value in values]
    finite = [number for number in numbers if math.isfinite(number)]
    if not finite:
        return "not finite"
    mean, low, high = (f"{x:{digits}}" for x in (math.fsum(finite) / len(finite), min(finite), max(finite)))
    text = mean if len(numbers) == 1 else f"{mean} ({low} to {high})"
    return text if len(finite) == len(numbers) else f"{text}, {len(numbers) - len(finite)} not finite"


def size_text(n_bytes: int) -> str:
    """Format a number of bytes with three digits, such as "41.9 MB"."""
    size, units = float(n_bytes), ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"
