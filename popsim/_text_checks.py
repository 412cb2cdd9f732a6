"""Checks of text and paths, without JAX: with them the commands refuse what is wrong before they load it."""

import difflib
import os
import shlex
import unicodedata
from collections.abc import Collection
from pathlib import Path
from typing import Any

FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # OWASP, "CSV Injection"; the last in full width


def suggestion(name: str, names: Collection[str]) -> str:
    """Return a sentence suggesting similarly spelt names, with a leading space; empty if there are none."""
    nearest = difflib.get_close_matches(name, names, n=3)
    return f" Perhaps you meant {' or '.join(nearest)}." if nearest else ""


def one_line(text: object) -> str:
    """Return a text, or the message of an error, on one line."""
    return " ".join(str(text).split())


def shorten(text: str, most_letters: int) -> str:
    """Return the beginning of a long text, with dots after it."""
    return text if len(text) <= most_letters else f"{text[:most_letters]} ..."


def as_cell(value: Any) -> Any:
    """Return a cell of a CSV that no spreadsheet takes for a formula; what is no text, or a number, stays."""
    if not isinstance(value, str) or not value.startswith(FORMULA_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def count_text(count: int, noun: str) -> str:
    """Return a number of things in words, such as "1 cell" or "2 batches"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded in UTF-8, as one with bytes of another encoding cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(name: str, text: str) -> None:
    """Check that a path, or another word of a command, is not empty and can be encoded in UTF-8."""
    if not is_utf8(text):
        raise ValueError(f"`{name}` must be a path in UTF-8, got {text!r}.")
    if not text:
        raise ValueError(f"`{name}` must be a path, got an empty one.")


def check_path(name: str, path: str | Path) -> None:
    """Check that popsim can work at a path: at the text itself, and at the place to which it leads.

    A path that passes can be a line of a script, a table or a report, and the library that reads the arrays
    takes it. Nothing at the path is opened.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(text := os.fspath(path), str):
        text = one_line(repr(path))[:200]
        raise ValueError(f"`{name}` must be a path, got {text}.")
    check_text(name, text)
    if need := _lacks(text):
        raise ValueError(f"`{name}` must be a path {need}, got {_shorten_path(text)}.")
    try:
        real = os.path.realpath(text)
    except OSError as error:  # the current folder was deleted
        raise ValueError(f"`{name}` must be a path that can be found, got {text!r}: {error}.") from None
    if need := _lacks(real) or _is_too_long(real):
        leads = f"got {_shorten_path(text)}, which is {_shorten_path(real)}"
        raise ValueError(f"`{name}` must lead to a path {need}, {leads}.")


def as_path(name: str, path: str | Path) -> Path:
    """Return an argument as a path that passes `check_path`."""
    check_path(name, path)
    return Path(path)


def as_word(path: Path) -> str:
    """Return a path as a word of a command: quoted where a shell needs it, and no option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


_REORDERING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # Unicode Annex 9, table 4
_LOCKS_OF_TENSORSTORE = ".__lock"  # its driver of files keeps names with this ending for itself
_NAME_BYTES = 255  # NAME_MAX of Linux, macOS and the usual file systems
_BYTES_BELOW = 512  # for the longest path inside a folder of popsim: cells/000000/history.zarr/ARRAY/SHARD


def has_control_characters(text: str) -> bool:
    """Whether a text has characters that end a line, move the cursor, or show other characters reordered."""
    return any(
        unicodedata.category(mark) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(mark) in _REORDERING
        for mark in text
    )


def printable(text: str) -> str:
    """Return a text with "?" for what is not printable: in a forged text it may command a terminal."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)


def _lacks(path: str) -> str:
    """Return what a path must be like and is not; empty if nothing."""
    if has_control_characters(path):
        return "without control characters"
    if not is_utf8(path):
        return "in UTF-8"
    if os.sep == "/" and "\\" in path:  # which tensorstore takes for a slash
        return "without a backslash"
    names = path.split(os.sep)
    if any(name.endswith(_LOCKS_OF_TENSORSTORE) for name in names):
        return f"without a name that ends in {_LOCKS_OF_TENSORSTORE}"
    if any(len(name.encode()) > _NAME_BYTES for name in names):
        return f"whose names have at most {_NAME_BYTES} bytes"
    return ""


def _is_too_long(path: str) -> str:
    """Return how long a path may be if this one leaves no room for what popsim writes below it."""
    if not hasattr(os, "pathconf"):
        return ""
    longest = os.pathconf("/", "PC_PATH_MAX") - _BYTES_BELOW  # negative on a system without a limit
    return f"of at most {longest} bytes" if 0 < longest < len(path.encode()) else ""


def _shorten_path(path: str) -> str:
    return repr(path) if len(path) <= 2 * _NAME_BYTES else f"{path[:_NAME_BYTES]!r} ..."
