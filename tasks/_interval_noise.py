"""Intervals that are shown with noise in proportion to their length, in whole time steps."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._plain_values import HALF, step_at
from popsim.distributions import AbstractDistribution

WIDEST = 3.0
"""Where the noise of shown intervals is truncated, in standard deviations."""


def steps_shown(
    interval: Float[Array, ""], weber_fraction: Float[Array, ""], dt: float, *, key: Key[Array, ""]
) -> Int[Array, ""]:
    """Draw the number of time steps as which an interval (s) is shown, whenever it begins."""
    noise = jax.random.truncated_normal(key, -WIDEST, WIDEST, (), interval.dtype)
    return step_at(interval * (1 + weber_fraction * noise), dt)


def widest_interval(interval: AbstractDistribution, weber_fraction: Float[Array, ""]) -> Float[Array, ""]:
    """Return the longest interval that may be shown, in seconds."""
    return (1 + WIDEST * weber_fraction) * interval.bounds()[1]


def shortest_interval(interval: AbstractDistribution, weber_fraction: Float[Array, ""]) -> Float[Array, ""]:
    """Return the shortest interval that may be shown, in seconds."""
    return (1 - WIDEST * weber_fraction) * interval.bounds()[0]


def probability_of_steps(
    n: Int[Array, "*#axes"],
    intervals: Float[Array, " value"],
    weber_fraction: float | Float[Array, ""],
    dt: float,
) -> Float[Array, "*axes"]:
    """Return the probability that each interval (last axis) is shown as `n` time steps."""
    # An interval without noise is shown as it is: the least spread is far below a time step.
    spread = jnp.maximum(weber_fraction, 1e-6) * intervals

    def below(seconds: Float[Array, "*#axes"]) -> Float[Array, "*axes"]:
        deviation = jnp.clip((seconds - intervals) / spread, -WIDEST, WIDEST)
        return jax.scipy.stats.norm.cdf(deviation)

    start = (n.astype(float) - HALF) * dt
    return (below(start + dt) - below(start)) / (1 - 2 * jax.scipy.stats.norm.cdf(-WIDEST))


def table_of_steps(
    intervals: Float[np.ndarray, " value"], weber_fraction: float, dt: float
) -> Float[np.ndarray, "steps value"]:
    """Return the probability of each number of time steps, from 0 to the largest, for each interval."""
    last = int(np.ceil((1 + WIDEST * weber_fraction) * np.max(intervals) / dt)) + 1
    with jax.enable_x64(True):
        steps, values = jnp.arange(last + 1)[:, None], jnp.asarray(intervals)
        return np.asarray(probability_of_steps(steps, values, weber_fraction, dt))
