"""Checks of text, without JAX: with them the commands refuse what is misspelt before they load it."""

import difflib
import os
from collections.abc import Collection
from pathlib import Path


def perhaps(given: str, known: Collection[str]) -> str:
    """Return a sentence suggesting similarly spelt names, with a leading space; empty if there are none."""
    nearest = difflib.get_close_matches(given, known, n=3)
    return f" Perhaps you meant {' or '.join(nearest)}." if nearest else ""


def check_path(name: str, path: str | Path) -> None:
    """Check that a path is not empty and can be encoded in UTF-8.

    **Raises:** `ValueError` naming the argument.
    """
    try:
        text = os.fspath(path)
    except TypeError:
        raise ValueError(f"`{name}` must be a path, got {path!r}.") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"`{name}` must be a path in UTF-8, got {text!r}.") from None
    if not text:
        raise ValueError(f"`{name}` must be a path, got an empty one.")
