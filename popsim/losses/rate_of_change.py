"""How fast a quantity changes from step to step."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def rate_of_change(values: Float[Array, "time features"], dt: float) -> Float[Array, "time features"]:
    """(x_t - x_{t-1}) / dt, in the unit of x per second; zero at the first step, before which nothing is
    known."""
    return jnp.diff(values, axis=0, prepend=values[:1]) / dt
