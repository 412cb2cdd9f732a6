"""The best estimate of an interval from a noisy measurement."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim._checks import check_positive, kind_of
from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform, as_distribution

__all__ = ["bayes_least_squares"]

N_NODES = 64
"""Of the Gauss-Legendre quadrature over a uniform prior."""


def bayes_least_squares(
    measured: Float[Array, "*axes"], prior: AbstractDistribution, weber_fraction: Any
) -> Float[Array, "*axes"]:
    """Return the mean of an interval given its measurement, which has the least squared error, in s.

    f(m) = ∫ p(t) t p(m|t) dt / ∫ p(t) p(m|t) dt, with m normal around t with the standard deviation w t:
    the Bayes least-squares estimator of Jazayeri & Shadlen 2010, Nat Neurosci 13:1020 (formula checked in
    public code that fits their observer to data, not in the paper). It regresses to the mean of the prior,
    the more so the longer the interval.

    **Arguments:**

    - `measured`: m, in s, such as the condition "measured" of a `ReadySetGo`.
    - `prior`: of t, such as `ReadySetGo.interval`: a `Uniform`, `Choice` or `Constant`.
    - `weber_fraction`: w.
    """
    check_positive("weber_fraction", weber_fraction)
    intervals, weights = _nodes(as_distribution(prior))
    std = weber_fraction * intervals
    log_likelihood = -jnp.log(std) - ((measured[..., None] - intervals) / std) ** 2 / 2
    return jax.nn.softmax(jnp.log(weights) + log_likelihood, axis=-1) @ intervals


def _nodes(prior: AbstractDistribution) -> tuple[Float[Array, " node"], Float[Array, " node"]]:
    """Return values of the prior, in s, and their weights."""
    match prior:
        case Uniform():
            nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
            middle, half = (prior.low + prior.high) / 2, (prior.high - prior.low) / 2
            return middle + half * jnp.asarray(nodes, half.dtype), jnp.asarray(weights, half.dtype)
        case Choice():
            return prior.values, jnp.ones_like(prior.values)
        case Constant():
            return prior.value[None], jnp.ones_like(prior.value[None])
    raise ValueError(f"`prior` must be a Uniform, Choice or Constant, got {kind_of(prior)}.")
