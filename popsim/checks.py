"""Validation of arguments: one line that names the argument, what was given and what is expected."""

from collections.abc import Callable
from typing import Any

import jax.core
import jax.numpy as jnp
import numpy as np
from jax import Array


def check_positive_int(name: str, value: object) -> None:
    """Raise `ValueError` unless `value` is a whole number of at least one."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise ValueError(f"`{name}` must be a positive whole number, got {value!r}.")


def check_finite(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value`, a number or an array of numbers, is finite.

    This and the two checks below accept what JAX is tracing: its numbers cannot be looked at.
    """
    _check_numbers(name, value, np.isfinite, "finite")


def check_positive(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value`, a number or an array of numbers, is finite and above zero."""
    _check_numbers(name, value, lambda x: np.isfinite(x) & (x > 0), "finite and above zero")


def check_non_negative(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value`, a number or an array of numbers, is finite and at least zero."""
    _check_numbers(name, value, lambda x: np.isfinite(x) & (x >= 0), "finite and at least zero")


def _check_numbers(
    name: str, value: Any, good: Callable[[np.ndarray], np.ndarray | np.bool_], expected: str
) -> None:
    if is_traced(value):
        return
    numbers = np.asarray(value)
    bad = numbers[~good(numbers)]
    if bad.size:
        raise ValueError(f"`{name}` must be {expected}, got {bad.flat[0]}.")


def as_float_array(value: Any) -> Array:
    """`value` as an array of the default floating-point type."""
    return jnp.asarray(value, jnp.result_type(float))


def n_steps_in(name: str, seconds: float, dt: float) -> int:
    """The number of steps of `dt` seconds in a time that must be a multiple of `dt`.

    **Arguments:**

    - `name`: the argument that holds the time, for the error message.
    - `seconds`: the time in seconds, zero or more.
    - `dt`: the time step in seconds.

    **Returns:** `round(seconds / dt)`.

    **Raises:** `ValueError` if `seconds` is negative, or further than 1e-6 s from a multiple of `dt`.
    """
    check_non_negative(name, seconds)
    n_steps = round(seconds / dt)
    if abs(n_steps * dt - seconds) > 1e-6:
        raise ValueError(f"`{name}` must be a multiple of the time step dt = {dt} s, got {seconds} s.")
    return n_steps


def is_traced(value: object) -> bool:
    """Whether JAX is tracing `value`, so that its numbers cannot be looked at."""
    return isinstance(value, jax.core.Tracer)
