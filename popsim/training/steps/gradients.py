"""The gradient of a training batch: its contract, back-propagation through time, and evolution strategies."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim._compiled import map_trials
from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_float_array, check_non_negative, check_positive, check_positive_int
from popsim.loss import Loss
from popsim.model import AbstractModel, initial_state, simulate
from popsim.training.steps.model_updates import TrainedBatch
from popsim.trial import Trial

__all__ = ["AbstractGradient", "BackpropThroughTime", "BatchRun", "EvolutionStrategies"]


class BatchRun(eqx.Module):
    """The trials of a training batch of one member, to be run with any values of the trained parameters.

    `run(params)` simulates all trials, each with its own key, and returns the `TrainedBatch`. It may be
    differentiated, in forward or reverse mode, and mapped over parameters by `jax.vmap`. It holds the whole
    batch in memory; `run.map_minibatches` holds one of the `n_minibatches` at a time.

    - `model`: the model with the present parameters.
    - `trials`: the trials; leaves have a leading axis (trial,).
    - `keys`: the key with which each trial is simulated.
    - `loss`: the loss of this batch.
    - `number`: the number of the training batch.
    - `n_minibatches`: the number of parts into which `map_minibatches` divides the batch.
    - `remat`: whether derivatives recompute each time step.
    - `keeps_states`: whether `run(params).states` are kept, for a model update; else they are None.
    """

    model: AbstractModel
    trials: Trial
    keys: Key[Array, " trial"]
    loss: Loss
    number: Int[Array, ""]
    n_minibatches: int = eqx.field(static=True, default=1)
    remat: bool = eqx.field(static=True, default=False)
    keeps_states: bool = eqx.field(static=True, default=False)

    def __call__(self, params: PyTree) -> TrainedBatch:
        """Run the trials.

        **Arguments:**

        - `params`: parameters in the structure of the model. Where it is None the model's own are used.
        """
        model = eqx.combine(params, self.model)

        def one_trial(trial: Trial, key: Key[Array, ""]) -> tuple[Any, Any]:
            states = simulate(model, trial, remat=self.remat, key=key)
            return states if self.keeps_states else None, self.loss(states, trial, model)

        return self._batch(model, *map_trials(one_trial, self.trials, self.keys))

    def map_minibatches(
        self, function: Callable[["BatchRun"], tuple[PyTree[Array], TrainedBatch]]
    ) -> tuple[PyTree[Array], TrainedBatch]:
        """Apply a function to each of the `n_minibatches` equal parts, with one part in memory at a time.

        **Arguments:**

        - `function`: from the run of a part to arrays that are means over its trials, such as gradients, and
            what the run returned for the present parameters.

        **Returns:** the means of the arrays over the parts, and the whole batch.
        """
        if self.n_minibatches == 1:
            return function(self)

        def of_part(part: tuple[Trial, Key[Array, " trial"]]) -> tuple[PyTree[Array], tuple[Any, Any]]:
            trials, keys = part
            means, batch = function(dataclasses.replace(self, trials=trials, keys=keys, n_minibatches=1))
            return means, (batch.states, batch.losses)

        # `function` differentiates within a turn of the scan, so that what one part stores for its derivative
        # is gone before the next one runs. A derivative of the whole scan would store all of them.
        sums, outcomes = sum_over_parts(of_part, split_batch((self.trials, self.keys), self.n_minibatches))
        states, losses = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), outcomes)
        # Equal parts: the mean over the batch is the mean of their means.
        means = jax.tree.map(lambda leaf: leaf / self.n_minibatches, sums)
        return means, self._batch(self.model, states, losses)

    def mean_loss(self, params: PyTree) -> Float[Array, ""]:
        """Return the mean loss over the batch, with one part in memory at a time even in derivatives."""
        if self.n_minibatches == 1:
            return self(params).mean_loss

        def of_part(part: tuple[Trial, Key[Array, " trial"]]) -> Float[Array, ""]:
            trials, keys = part
            return dataclasses.replace(self, trials=trials, keys=keys)(params).mean_loss

        parts = split_batch((self.trials, self.keys), self.n_minibatches)
        # A line search differentiates this from outside, where the loop would store every part: each is
        # recomputed in the backward pass instead.
        return jnp.mean(jax.lax.map(jax.checkpoint(of_part), parts))

    def _batch(self, model: AbstractModel, states: PyTree[Array], losses: Any) -> TrainedBatch:
        """Return the batch; only model updates need the initial states."""
        initial_states = None
        if self.keeps_states:
            initial_states = jax.vmap(lambda trial, key: initial_state(model, trial, key=key))(
                self.trials, self.keys
            )
        return TrainedBatch(
            model, self.trials, self.keys, initial_states, states, losses, self.loss, self.number
        )


class AbstractGradient(eqx.Module):
    """How the gradient of a batch is computed, or estimated.

    A subclass supplies `__call__`, and `init` if it carries something from batch to batch. What follows a
    gradient is the same for all of them: clipping, the optimizer, model updates and constraints.

    - `serves_line_search`: whether optimizers may evaluate and differentiate the loss at other parameters, as
        `optax.lbfgs` does; else these are refused. A field or an attribute of the class.

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

    def init(self, params: PyTree) -> PyTree[Array]:
        """Return what is carried into the first batch of one member, numbers or arrays; None by default.

        **Arguments:**

        - `params`: the model with None in place of all that is trained in no batch.
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

    def init(self, params: PyTree) -> PyTree[Array]:
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


def sum_over_parts(
    function: Callable[[Any], tuple[PyTree[Array], PyTree[Array]]], parts: PyTree[Array]
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Return the sums over parts of what a function returns first, and the stacks of what it returns then."""
    # A scan needs its sums before the first part; only shapes are evaluated here.
    shapes, _ = jax.eval_shape(function, jax.tree.map(lambda leaf: leaf[0], parts))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

    def add_part(sums: PyTree[Array], part: Any) -> tuple[PyTree[Array], PyTree[Array]]:
        part_sum, outcome = function(part)
        return jax.tree.map(jnp.add, sums, part_sum), outcome

    return jax.lax.scan(add_part, zeros, parts)


def split_batch(batch: PyTree[Array], num_minibatches: int) -> PyTree[Array]:
    """Return arrays with axes (part, example, ...)."""
    check_positive_int("num_minibatches", num_minibatches)
    sizes = {leaf.shape[0] for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or min(sizes) % num_minibatches:
        raise ValueError(
            f"`batch` must divide into {num_minibatches} equal minibatches, got leading axes {sorted(sizes)}."
        )
    return jax.tree.map(lambda leaf: leaf.reshape(num_minibatches, -1, *leaf.shape[1:]), batch)
