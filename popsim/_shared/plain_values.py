"""Values that users give, as plain Python that JSON and YAML hold, and the time steps at which times fall."""

import enum
import math
import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim._shared.text_checks import one_line

Number = TypeVar("Number", int, float, int | None, float | None)
PLAIN = "a number, text, True, False, None, or tuples and dicts of these with text as keys"


def plain_value(name: str, value: Any) -> Any:
    """Return a value as plain Python: arrays as tuples, `np.float32(1e-3)` as 0.001, paths as text."""
    match value:
        case None | bool():
            return value
        case enum.Enum():
            return plain_value(name, value.value)
        case PurePath():
            return os.fspath(value)
        case np.generic():
            return _plain_array(name, value)
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case Mapping() if all(isinstance(key, str) for key in value):
            return {str(key): plain_value(f"{name}[{key!r:.40}]", part) for key, part in value.items()}
        case list() | tuple() | range():
            return tuple(plain_value(f"{name}[{index}]", part) for index, part in enumerate(value))
    return _plain_array(name, value)


def _plain_array(name: str, value: Any) -> Any:
    """Return what has the interface of an array as a number, text, or tuples of these."""
    refusal = f"`{name}` must be a plain value, which is {PLAIN}, got {_describe(value)}."
    if not hasattr(value, "__array__"):
        raise ValueError(refusal)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # a traced array, a random key, an array of another device
        raise ValueError(refusal) from None
    if array.ndim:
        return plain_value(name, list(array))
    kind = array.dtype.name
    if array.dtype.kind in "biuU" or kind == "float64":
        return array.item()
    if kind.startswith(("float", "bfloat")):  # of JAX some, unknown to NumPy
        return float(str(array[()]))
    raise ValueError(refusal)


def check_finite_value(name: str, value: Any) -> None:
    """Raise `ValueError` naming the place in a plain value at which a number is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{name}` must be finite, got {value}.")
    if isinstance(value, dict):
        for key, part in value.items():
            check_finite_value(f"{name}[{key!r:.40}]", part)
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            check_finite_value(f"{name}[{index}]", part)


def plain_number(value: Number) -> Number:
    """Return a scalar of NumPy, which JAX would trace in a static field, as Python's; all else unchanged."""
    number: Any = value
    if isinstance(number, np.timedelta64):  # one of Python, which the check of the field refuses by its name
        return number.astype("m8[us]").item()
    return plain_value("number", number) if isinstance(number, np.number | np.bool) else value


def _describe(value: Any) -> str:
    """Return what a value is, on one line and in less than a hundred letters."""
    try:
        return f"{type(value).__name__} {one_line(repr(value))[:80]}"
    except Exception:  # the representation is the user's code
        return type(value).__name__


# Half a step is rounded up. Sums of times like .125 s, and their quotients by dt, miss it by rounding errors
# of either sign: what is nearer than a ten-thousandth of a step counts as half a step.
HALF = 0.5 + 1e-4


Seconds = float | np.floating


def step_at(seconds: Seconds | Float[Array, "*axes"], dt: float) -> Any:
    """Return the number of the time step nearest to a time, floor(t / dt + 1/2); half a step counts up."""
    if isinstance(seconds, int | float | np.generic):
        return math.floor(float(seconds) / dt + HALF)
    return jnp.floor(seconds / dt + HALF).astype(int)


def is_on_grid(seconds: Seconds, dt: float) -> bool:
    """Return whether a time is a multiple of the time step, to 1e-6 s or a hundredth of a step."""
    return bool(abs(step_at(seconds, dt) * dt - seconds) <= min(1e-6, 0.01 * dt))


def nearest_times(seconds: Seconds, dt: float) -> str:
    """Return the multiples of the time step on both sides of a time, as text."""
    below = math.floor(seconds / dt)
    return f"{below * dt:.6g} s and {(below + 1) * dt:.6g} s"
