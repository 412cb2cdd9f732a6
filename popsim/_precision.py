"""Numbers that the precision of a computation cannot hold."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from popsim._compiled import is_traced

TINY, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
MOST_SETTINGS = 16  # longer arrays are data, whose tails may vanish


def precision_loss(values: Any, most_settings: int = MOST_SETTINGS) -> str:
    """Return what becomes of the first number that is lost in float32; empty if none is.

    Where float64 is enabled, none is. A positive number below the smallest normal one, 1.2e-38,
    becomes 0: XLA flushes subnormal numbers to zero.
    """
    listed = values if isinstance(values, list | tuple) else (values,)
    if all(
        isinstance(each, float | int) and _is_representable(each) for each in listed
    ):  # without an array, in a µs
        return ""
    if is_traced(values):
        return ""
    try:
        numbers = np.atleast_1d(np.asarray(values))
    except (TypeError, ValueError):  # traced arrays in a list, or rows of different lengths
        return ""
    if not jnp.issubdtype(numbers.dtype, jnp.floating):
        return ""
    sizes = np.abs(numbers.astype(float))
    large, small = np.isfinite(sizes) & (sizes > LARGEST), (sizes > 0) & (sizes < TINY)
    lost = large if numbers.size > most_settings else large | small
    if not lost.any() or jnp.result_type(float) != jnp.float32:
        return ""
    number = float(numbers[lost].flat[0])
    return f"{number}, which becomes {'0' if abs(number) < 1 else 'infinite'} in float32"


def _is_representable(number: float) -> bool:
    return number == 0 or bool(TINY <= abs(number) <= LARGEST)
