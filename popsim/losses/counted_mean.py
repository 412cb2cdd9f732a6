"""The mean over the time steps that count."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def counted_mean(values: Float[Array, " time"], counts: Float[Array, " time"]) -> Float[Array, ""]:
    """The mean over time steps, as much as each counts; zero if none does."""
    total = jnp.sum(counts)
    return jnp.sum(counts * values) / jnp.where(total > 0, total, 1.0)
