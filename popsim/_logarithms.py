"""Logarithms of probabilities, some of which may be infinite."""

import jax.numpy as jnp
from jaxtyping import Array, Float

FARTHEST = 1e30
"""A logit whose probability is zero or one in any precision."""


def bounded_logits(logits: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Return logits within ±1e30, so that p log p of what is forbidden is 0, not 0 times infinity.

    The derivatives by logits beyond are zero.
    """
    return jnp.clip(logits, -FARTHEST, FARTHEST)


def weigh(weights: Float[Array, "*#axes"], values: Float[Array, "*#axes"]) -> Float[Array, "*axes"]:
    """Return the product of weights and values, zero where the weight is zero and the value is infinite.

    The derivatives are zero there, too.
    """
    return weights * jnp.where((weights == 0) & jnp.isinf(values), 0.0, values)
