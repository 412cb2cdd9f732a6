"""Intervals that a network produces."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from popsim.checks import check_positive


def produced_interval(
    output: Float[Array, "*trial time"],
    start: Int[Array, "*trial"],
    *,
    dt: float,
    threshold: float = 1.0,
) -> Float[Array, "*trial"]:
    """The time from a step, such as that of the event "set", until the output reaches a threshold, in s.

    It is counted from row `start` on, the state at the end of the step of "set", as `ReadySetGo` counts the
    interval that is to be produced. Between two steps the output is taken to rise in a straight line. Zero if
    it is at the threshold or above in row `start` already, infinite if it never is from there on.

    **Arguments:**

    - `output`: one output of a network.
    - `start`: the step from which time is counted.
    - `dt`: the time step in seconds.
    - `threshold`: the output that is to be reached.

    **Raises:** `ValueError` if `dt` is not positive.
    """
    check_positive("dt", dt)
    steps = jnp.arange(output.shape[-1])
    is_above = (output >= threshold) & (steps >= start[..., None])
    crossed = jnp.argmax(is_above, axis=-1)

    def at(step: Int[Array, "*trial"]) -> Float[Array, "*trial"]:
        return jnp.take_along_axis(output, step[..., None], axis=-1)[..., 0]

    after, before = at(crossed), at(jnp.maximum(crossed - 1, 0))
    is_later = crossed > start
    beyond = jnp.where(is_later, (after - threshold) / jnp.where(is_later, after - before, 1.0), 0.0)
    interval = dt * ((crossed - start).astype(output.dtype) - beyond)
    return jnp.where(jnp.any(is_above, axis=-1), interval, jnp.inf)
