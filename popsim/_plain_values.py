"""Values that users give, as plain Python that JSON and YAML can hold and give back."""

import enum
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

import numpy as np

from popsim._text_checks import is_utf8, one_line

Number = TypeVar("Number", int, float, int | None, float | None)
PLAIN = "a number, text, True, False, None, or tuples and dicts of these"
DEEPEST = 32  # levels of tuples and dicts
WIDEST = 1024  # bits of a whole number, as many as a float reaches
MOST_VALUES = 1_000_000  # of a tuple


def plain_value(name: str, value: Any, *, depth: int = 0) -> Any:
    """Return a value as plain Python: scalars of NumPy and JAX as numbers, arrays and lists as tuples.

    A number of less than double precision becomes the shortest decimal that reads back as the same number:
    `np.float32(1e-3)` becomes 0.001. Paths become text, and members of an enumeration their values.

    **Arguments:**

    - `name`: the name of the argument, for the error message.
    - `value`: the value.
    - `depth`: the number of tuples and dicts around it.
    """
    if value is None or isinstance(value, bool):
        return value
    if depth > DEEPEST:
        raise ValueError(f"`{name[:80]}` must be nested at most {DEEPEST} deep.")
    match value:
        case enum.Enum():
            return plain_value(name, value.value, depth=depth + 1)
        case PurePath():
            return _plain_text(name, os.fspath(value))
        case str():
            return _plain_text(name, value)
        case np.generic():
            return _plain_array(name, value, depth)
        case int():
            return _plain_int(name, value)
        case float():
            return float(value)
        case Mapping():
            return {
                _plain_key(name, key): plain_value(f"{name}[{key!r:.40}]", each, depth=depth + 1)
                for key, each in value.items()
            }
        case list() | tuple() | range():
            if len(value) > MOST_VALUES:
                raise ValueError(f"`{name}` must have at most {MOST_VALUES} values, got {len(value)}.")
            return tuple(plain_value(f"{name}[{at}]", each, depth=depth + 1) for at, each in enumerate(value))
    return _plain_array(name, value, depth)


def check_finite_value(name: str, value: Any) -> None:
    """Raise `ValueError` naming the place in a plain value at which a number is not finite."""
    for place, part in _parts(name, value):
        if isinstance(part, float) and not math.isfinite(part):
            raise ValueError(f"`{place}` must be finite, got {part}.")


def check_text_keys(name: str, value: Any) -> None:
    """Raise `ValueError` naming the place in a plain value at which a key is not text, as JSON has it."""
    for place, part in _parts(name, value):
        for key in part if isinstance(part, dict) else ():
            if not isinstance(key, str):
                raise ValueError(f"`{place}` must have text as keys, got {key!r:.100}.")


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a plain value and all values in it, with their places."""
    yield name, value
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _parts(f"{name}[{key!r:.40}]", each)
    elif isinstance(value, list | tuple):
        for at, each in enumerate(value):
            yield from _parts(f"{name}[{at}]", each)


def plain_number(value: Number) -> Number:
    """Return a scalar of NumPy as the number of Python with its digits, and anything else unchanged.

    It converts static fields, for whose numbers programs are compiled: JAX would trace scalars of NumPy.
    """
    number: Any = value
    if isinstance(number, np.timedelta64):  # one of Python, which the check of the field refuses by its name
        return number.astype("m8[us]").item()
    return plain_value("number", number) if isinstance(number, np.generic) else number


def _plain_text(name: str, text: str) -> str:
    if not is_utf8(text):
        raise ValueError(f"`{name}` must be text in UTF-8, got {text!r:.100}.")
    return str.__str__(text)


def _plain_int(name: str, number: int) -> int:
    if number.bit_length() > WIDEST:
        raise ValueError(f"`{name}` must be a whole number of at most {WIDEST} bits, got a larger one.")
    return int(number)


def _plain_key(name: str, key: Any) -> str | int:
    key = plain_value(name, key)
    if not isinstance(key, str | int):
        raise ValueError(f"`{name}` must have text or whole numbers as keys, got {key!r:.100}.")
    return key


def _plain_array(name: str, value: Any, depth: int) -> Any:
    """Return what has the interface of an array as a number, text, or tuples of these."""
    refusal = f"`{name}` must be a plain value, which is {PLAIN}, got {_describe(value)}."
    if not hasattr(value, "__array__"):
        raise ValueError(refusal)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # a traced array, a random key, an array of another device
        raise ValueError(refusal) from None
    if array.ndim:
        return plain_value(name, list(array), depth=depth)
    match scalar := array[()]:
        case np.bool_():
            return bool(scalar)
        case np.timedelta64():  # an integer to NumPy, of its own unit
            raise ValueError(refusal)
        case np.integer():
            return int(scalar)
        case np.float64():
            return float(scalar)
        case np.str_():
            return _plain_text(name, scalar)
        case np.floating():
            return float(str(scalar))
        case np.generic() if array.dtype.name.startswith(("bfloat", "float")):  # of JAX, unknown to NumPy
            return float(str(scalar))
        case np.generic():
            raise ValueError(refusal)
    return plain_value(name, scalar, depth=depth + 1)  # an array of objects


def _describe(value: Any) -> str:
    """Return what a value is, on one line and in less than a hundred letters."""
    try:
        return f"{type(value).__name__} {one_line(repr(value))[:80]}"
    except Exception:  # the representation is the user's code
        return type(value).__name__
