"""Evolution strategies: gradients from losses alone, without derivatives."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from popsim._argument_shapes import check_fields
from popsim._checks import as_float_array, check_non_negative, check_positive, check_positive_int
from popsim.training.steps.gradients import AbstractGradient, BatchRun
from popsim.training.steps.model_updates import TrainedBatch

__all__ = ["EvolutionStrategies"]


class EvolutionStrategies(AbstractGradient):
    """The natural gradient of the loss under a normal distribution of weights (separable NES).

    In each batch the loss is evaluated at weights w + σ s_k, where each s_k is standard normal, and all see
    the same trials and noise. The gradient is -σ Σ_k u_k s_k, where the utility u_k depends on the rank of
    the loss alone, and each σ is multiplied by exp(½ η_σ Σ_k u_k (s_k² - 1)). It needs no derivative of body
    or environment. Wierstra et al. 2014, J Mach Learn Res 15:949-980, algorithm 6 and table 1, checked
    against the implementations in evosax and PyPop7.

    The optimizer of the paper is `popsim.training.sgd(1.0)`: σ is then the only step size.

    **Arguments:**

    - `population_size`: the number of evaluations k in a batch. All run at once.
    - `std`: the first σ, in the unit of the weights.
    - `std_rate`: η_σ; None for (3 + ln d) / (5 √d), where d is the number of weights. 0 keeps σ.
    """

    population_size: int = eqx.field(static=True, default=32)
    std: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.1)
    std_rate: Float[Array, ""] | None = eqx.field(
        converter=lambda rate: None if rate is None else as_float_array(rate), default=None
    )

    def __check_init__(self):
        check_fields(self)
        check_positive_int("population_size", self.population_size)
        if self.population_size < 2:
            raise ValueError(f"`population_size` must be at least 2, got {self.population_size}.")
        check_positive("std", self.std)
        if self.std_rate is not None:
            check_non_negative("std_rate", self.std_rate)

    def init(self, params: PyTree) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, 1.0) * jnp.log(self.std), params)

    def __call__(
        self, run: BatchRun, params: PyTree, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, TrainedBatch, PyTree[Array]]:
        weights, unravel = ravel_pytree(params)
        log_std, unravel_std = ravel_pytree(_trained_now(carry, params))
        draws = jax.random.normal(key, (self.population_size, weights.size), weights.dtype)
        std = jnp.exp(log_std)

        def evaluate(part: BatchRun) -> tuple[Float[Array, " k"], TrainedBatch]:
            losses = jax.vmap(lambda draw: part(unravel(weights + std * draw)).mean_loss)(draws)
            return losses, part(params)

        losses, batch = run.map_minibatches(evaluate)
        utilities = _utilities(losses)
        growth = 0.5 * self._std_rate(weights.size) * (utilities @ (draws**2 - 1))
        next_carry = eqx.combine(unravel_std(log_std + growth), carry)
        return unravel(-std * (utilities @ draws)), batch, next_carry

    def _std_rate(self, n_weights: int) -> Any:
        if self.std_rate is not None:
            return self.std_rate
        return (3 + jnp.log(n_weights)) / (5 * jnp.sqrt(n_weights))


def _trained_now(carry: PyTree[Array], params: PyTree) -> PyTree[Array]:
    """Return the part of the carry that belongs to the parameters of this phase of the training."""
    return jax.tree.map(
        lambda leaf, param: None if param is None else leaf,
        carry,
        params,
        is_leaf=lambda node: node is None,
    )


def _utilities(losses: Float[Array, " k"]) -> Float[Array, " k"]:
    """Return the utility of each evaluation: high for a low loss, and summing to zero.

    The loss of rank r, from 1 for the lowest, has max(0, ln(n / 2 + 1) - ln r), divided by the sum of all of
    these, minus 1 / n. Equal losses share the mean of their utilities, so that the order of evaluations does
    not count, and equal losses alone move nothing. Losses that are not finite are equal, and the highest.
    """
    n = losses.shape[0]
    losses = jnp.where(jnp.isfinite(losses), losses, jnp.inf)
    by_rank = jnp.maximum(0.0, jnp.log(n / 2 + 1) - jnp.log(jnp.arange(1, n + 1)))
    by_rank = by_rank / jnp.sum(by_rank) - 1 / n
    utilities = by_rank[jnp.argsort(jnp.argsort(losses))]
    is_equal = losses[:, None] == losses
    shared = jnp.mean(jnp.broadcast_to(utilities, (n, n)), axis=1, where=is_equal)
    return jnp.where(jnp.all(is_equal), 0.0, shared)  # whose sum is zero only to rounding
