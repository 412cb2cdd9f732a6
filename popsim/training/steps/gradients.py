"""The gradient of a training batch: its contract, back-propagation through time, and evolution strategies."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_float_array, check_non_negative, check_positive, check_positive_int
from popsim.model import AbstractModel
from popsim.training.steps.batch_runs import BatchRun
from popsim.training.steps.model_updates import TrainedBatch

__all__ = ["AbstractGradient", "BackpropThroughTime", "EvolutionStrategies"]


class AbstractGradient(eqx.Module):
    """How the gradient of a batch is computed, or estimated.

    A subclass supplies `__call__`, and `init` if it carries something from batch to batch. What follows a
    gradient is the same for all of them: clipping, the optimizer, model updates and constraints.

    - `serves_line_search`: whether optimizers may evaluate and differentiate the loss at other parameters, as
        `optax.lbfgs` does; else these are refused. A field or an attribute of the class.
    - `returns_change`: whether it returns the change of the parameters itself, which is added to them as it
        is. The trainer then takes no optimizer.

    !!! example

        The derivative along one random direction, by a finite difference:

        ```python
        >>> import jax, jax.numpy as jnp
        >>> from popsim.training import AbstractGradient
        >>> class RandomDirection(AbstractGradient):
        ...     size: float = 1e-3
        ...     def __call__(self, run, params, carry, *, key):
        ...         flat, unravel = jax.flatten_util.ravel_pytree(params)
        ...         direction = jax.random.normal(key, flat.shape)
        ...         def estimate(part):
        ...             batch = part(params)
        ...             moved = part(unravel(flat + self.size * direction))
        ...             slope = (moved.mean_loss - batch.mean_loss) / self.size
        ...             return unravel(slope * direction), batch
        ...         gradients, batch = run.map_minibatches(estimate)
        ...         return gradients, batch, carry

        ```
    """

    serves_line_search = False
    returns_change = False

    def init(self, params: PyTree, model: AbstractModel, *, key: Key[Array, ""]) -> PyTree[Array]:
        """Return what is carried into the first batch of one member, numbers or arrays; None by default.

        **Arguments:**

        - `params`: the model with None in place of all that is trained in no batch.
        - `model`: the whole model.
        - `key`: a key for random draws, different for each member.
        """
        return None

    @abc.abstractmethod
    def __call__(
        self, run: BatchRun, params: PyTree, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, TrainedBatch, PyTree[Array]]:
        """Return the gradients of the mean loss over a batch.

        **Arguments:**

        - `run`: runs the trials of the batch. `run.map_minibatches` holds one minibatch in memory at a time.
        - `params`: the model with None in place of all that is not trained in this batch.
        - `carry`: what the last batch, or `init`, returned. It is saved in checkpoints, kept where a member
            freezes, and inherited in a selection. A member freezes if it is not finite.
        - `key`: a key for random draws, different for each batch and member.

        **Returns:**

        - the gradients, like `params`;
        - the batch as it was run with `params`: its losses are recorded, and model updates learn from it;
        - the next carry, with the structure, shapes and dtypes of `carry`.
        """


class BackpropThroughTime(AbstractGradient):
    """Back-propagation through time: the exact gradient, in reverse mode (Werbos 1990, Proc IEEE 78:1550).

    A time step stores what its derivative needs, or recomputes it where the trainer has `remat`.
    """

    serves_line_search = True

    def __call__(
        self, run: BatchRun, params: PyTree, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, TrainedBatch, PyTree[Array]]:
        def mean_loss(params: PyTree, part: BatchRun) -> tuple[Float[Array, ""], TrainedBatch]:
            batch = part(params)
            return batch.mean_loss, batch

        differentiate = eqx.filter_grad(mean_loss, has_aux=True)
        gradients, batch = run.map_minibatches(lambda part: differentiate(params, part))
        return gradients, batch, carry


class EvolutionStrategies(AbstractGradient):
    """The natural gradient of the loss under a normal distribution of weights (separable NES).

    In each batch the loss is evaluated at weights w + σ s_k, where each s_k is standard normal, and all see
    the same trials and noise. The gradient is -σ Σ_k u_k s_k, where the utility u_k depends on the rank of
    the loss alone, and each σ is multiplied by exp(½ η_σ Σ_k u_k (s_k² - 1)). Wierstra et al. 2014, J Mach
    Learn Res 15:949-980, algorithm 6 and table 1, checked against evosax and PyPop7.

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

    def init(self, params: PyTree, model: AbstractModel, *, key: Key[Array, ""]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, 1.0) * jnp.log(self.std), params)

    def __call__(
        self, run: BatchRun, params: PyTree, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, TrainedBatch, PyTree[Array]]:
        weights, unravel = ravel_pytree(params)
        # The part of the carry that belongs to the parameters of this phase of the training.
        is_trained = jax.tree.map(lambda node: node is not None, params, is_leaf=lambda node: node is None)
        log_std, unravel_std = ravel_pytree(eqx.filter(carry, is_trained))
        draws = jax.random.normal(key, (self.population_size, weights.size), weights.dtype)
        std = jnp.exp(log_std)

        def evaluate(part: BatchRun) -> tuple[Float[Array, " k"], TrainedBatch]:
            losses = jax.vmap(lambda draw: part(unravel(weights + std * draw)).mean_loss)(draws)
            return losses, part(params)

        losses, batch = run.map_minibatches(evaluate)
        utilities = _utilities(losses)
        n = weights.size
        rate = (3 + jnp.log(n)) / (5 * jnp.sqrt(n)) if self.std_rate is None else self.std_rate
        growth = 0.5 * rate * (utilities @ (draws**2 - 1))
        next_carry = eqx.combine(unravel_std(log_std + growth), carry)
        return unravel(-std * (utilities @ draws)), batch, next_carry


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
