"""The gradient of a training batch: its contract, and back-propagation through time."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim._checks import check_positive_int
from popsim._compiled import map_trials
from popsim.loss import Loss
from popsim.model import AbstractModel, initial_state, simulate
from popsim.training.steps.model_updates import TrainedBatch
from popsim.trial import Trial

__all__ = ["AbstractGradient", "BackpropThroughTime", "BatchRun"]


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
    - `keeps_states`: whether `run(params).states` are kept, because a model update needs them; else they are
        None.
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

        def add_part(sums: PyTree[Array], part: Any) -> tuple[PyTree[Array], tuple[Any, Any]]:
            means, outcome = of_part(part)
            return jax.tree.map(jnp.add, sums, means), outcome

        parts = split_batch((self.trials, self.keys), self.n_minibatches)
        shapes, _ = jax.eval_shape(of_part, jax.tree.map(lambda leaf: leaf[0], parts))
        zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
        sums, outcomes = jax.lax.scan(add_part, zeros, parts)
        states, losses = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), outcomes)
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

    - `serves_line_search`: whether optimizers may evaluate and differentiate the loss at other parameters
        (`optax.lbfgs`, `optax.contrib.sam`, `optax.contrib.sophia`). Without it they are refused. A field or
        an attribute of the class.

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

        - `params`: all parameters that are trained in some batch, in the structure of the model, with None
            elsewhere.
        """
        return None

    @abc.abstractmethod
    def __call__(
        self, run: BatchRun, params: PyTree, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, TrainedBatch, PyTree[Array]]:
        """Return the gradients of the mean loss over a batch.

        **Arguments:**

        - `run`: runs the trials of the batch. `run.map_minibatches` holds one minibatch in memory at a time.
        - `params`: the parameters that are trained in this batch, in the structure of the model, with None
            elsewhere.
        - `carry`: what the last batch, or `init`, returned. It is saved in checkpoints, kept where a member
            freezes, and inherited in a selection. A member freezes if it is not finite.
        - `key`: a key for random draws, different for each batch and member.

        **Returns:**

        - the gradients, like `params`;
        - the batch as it was run with `params`: its losses are recorded, and model updates learn from it;
        - the next carry, with the structure, shapes and dtypes of `carry`.
        """


class BackpropThroughTime(AbstractGradient):
    """Back-propagation through time: the exact gradient, in reverse mode.

    See Werbos (1990, Proceedings of the IEEE 78:1550-1560). A time step stores what its derivative needs, or
    recomputes it where the trainer has `remat`.
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


def split_batch(batch: PyTree[Array], num_minibatches: int) -> PyTree[Array]:
    """Return arrays with axes (part, example, ...)."""
    check_positive_int("num_minibatches", num_minibatches)
    sizes = {leaf.shape[0] for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or min(sizes) % num_minibatches:
        raise ValueError(
            f"`batch` must divide into {num_minibatches} equal minibatches, got leading axes {sorted(sizes)}."
        )
    return jax.tree.map(lambda leaf: leaf.reshape(num_minibatches, -1, *leaf.shape[1:]), batch)
