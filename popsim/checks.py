"""Validation of arguments: one line that names the argument, what was given and what is expected."""

import math

import jax.core


def check_positive_int(name: str, value: object) -> None:
    """Raise `ValueError` unless `value` is a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be a positive whole number, got {value!r}.")


def check_positive(name: str, value: float) -> None:
    """Raise `ValueError` unless `value` is a finite number above zero."""
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"`{name}` must be a finite number above zero, got {value!r}.")


def check_non_negative(name: str, value: float) -> None:
    """Raise `ValueError` unless `value` is a finite number of at least zero."""
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"`{name}` must be a finite number of at least zero, got {value!r}.")


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
