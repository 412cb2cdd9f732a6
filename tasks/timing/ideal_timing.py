"""The best estimates of intervals that were shown with noise, and how good they are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from popsim._checks import check_positive, kind_of
from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform, as_distribution
from popsim.tasks._interval_noise import probability_of_steps, table_of_steps
from popsim.tasks._known_tasks import check_known_task, values_of_choice
from popsim.tasks.timing.interval_production import OneTwoThreeGo

__all__ = ["bayes_least_squares", "estimate_interval", "interval_error"]


N_NODES, FARTHEST = 64, 8.0
"""Of the Gauss-Legendre quadrature over a uniform prior, as far as the measurement is likely, in standard
deviations."""


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
    intervals, weights = _nodes(as_distribution(prior), measured[..., None], weber_fraction)
    std = weber_fraction * intervals
    log_likelihood = -jnp.log(std) - ((measured[..., None] - intervals) / std) ** 2 / 2
    return jnp.sum(jax.nn.softmax(jnp.log(weights) + log_likelihood, axis=-1) * intervals, axis=-1)


def _nodes(
    prior: AbstractDistribution, measured: Float[Array, "*axes 1"], weber_fraction: Any
) -> tuple[Float[Array, "*#axes node"], Float[Array, " node"]]:
    """Return values of the prior, in s, and their weights."""
    match prior:
        case Uniform():
            nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
            # Where noise is small, few nodes in the whole prior would be likely. A measurement far outside of
            # the prior leaves its nearest end, and the last standard deviations before that.
            away = FARTHEST * weber_fraction
            least = jnp.minimum(measured / (1 + away), prior.high * (1 - away))
            most = jnp.where(away < 1, measured / jnp.where(away < 1, 1 - away, 1.0), jnp.inf)
            low = jnp.clip(least, prior.low, prior.high)
            high = jnp.clip(jnp.maximum(most, prior.low * (1 + away)), prior.low, prior.high)
            middle, half = (low + high) / 2, (high - low) / 2
            return middle + half * jnp.asarray(nodes, half.dtype), jnp.asarray(weights, half.dtype)
        case Choice():
            return prior.values, jnp.ones_like(prior.values)
        case Constant():
            return prior.value[None], jnp.ones_like(prior.value[None])
    raise ValueError(f"`prior` must be a Uniform, Choice or Constant, got {kind_of(prior)}.")


def estimate_interval(task: OneTwoThreeGo, n_shown: Int[Array, "*axes 2"]) -> Float[Array, "*axes"]:
    """Return the mean of the interval of a `OneTwoThreeGo` given both shown ones, in s.

    The estimate with the least squared error, by Bayes' rule from the prior and the noise of both: that of
    Jazayeri & Shadlen 2010, Nat Neurosci 13:1020, for the two measurements of Egger & Jazayeri 2018, Sci Rep
    8:12597 (compared with the abstracts only).

    **Arguments:**

    - `task`: the task, whose interval is a `Choice`.
    - `n_shown`: the numbers of time steps from the first pulse to the second, and to the third.
    """
    values = _intervals_of(task)
    likelihoods = probability_of_steps(n_shown[..., None], values, task.weber_fraction, task.dt)
    weights = jnp.prod(likelihoods, axis=-2)
    total = jnp.sum(weights, axis=-1)
    return jnp.sum(weights * values, axis=-1) / total


def interval_error(task: OneTwoThreeGo, *, n_intervals: int = 2) -> float:
    """Return the root mean squared error of the best estimate of the interval of a `OneTwoThreeGo`, in s.

    No estimate from the pulses has a smaller one.

    **Arguments:**

    - `task`: the task, whose interval is a `Choice`.
    - `n_intervals`: how many of the shown intervals are used: none, one or two.
    """
    if n_intervals not in (0, 1, 2):
        raise ValueError(f"`n_intervals` must be 0, 1 or 2, got {n_intervals!r}.")
    values = np.asarray(_intervals_of(task), float)
    single = table_of_steps(values, float(task.weber_fraction), task.dt)
    joint = np.ones((1, len(values))) / len(values)
    for _ in range(n_intervals):
        joint = (joint[:, None] * single[None]).reshape(-1, len(values))
    total = joint.sum(axis=1)
    mean = joint @ values / np.where(total > 0, total, 1.0)
    return float(np.sqrt(np.sum(joint * (values - mean[:, None]) ** 2)))


def _intervals_of(task: OneTwoThreeGo) -> Float[Array, " value"]:
    check_known_task(task, OneTwoThreeGo)
    return values_of_choice(task, "interval")
