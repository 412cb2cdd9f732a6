"""Model updates, applied after each step of the optimizer."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from popsim._shared.checks import short_repr
from popsim.loss import Loss, LossValues
from popsim.model import AbstractModel
from popsim.randomness import key_stream, seed_key
from popsim.trial import Trial

__all__ = ["TrainedBatch", "AbstractModelUpdate"]


class TrainedBatch(eqx.Module):
    """A training batch of one member after its forward pass, the input of learning rules.

    - `model`: the model that ran the trials, before any change in this batch.
    - `trials`: the trials; leaves have a leading axis (trial,).
    - `keys`: the key with which each trial was simulated.
    - `initial_states`: the states before the first time step, with axis (trial,); None without model updates.
    - `states`: the recorded states, with axes (trial, time); None likewise.
    - `losses`: the weighted terms of each trial.
    - `loss`: the loss, to score other runs of the same trials.
    - `number`: the number of the training batch.
    """

    model: AbstractModel
    trials: Trial
    keys: Key[Array, " trial"]
    initial_states: PyTree[Array]
    states: PyTree[Array]
    losses: LossValues
    loss: Loss
    number: Int[Array, ""]

    @property
    def mean_losses(self) -> LossValues:
        """The mean of each term over the trials."""
        return jax.tree.map(jnp.mean, self.losses)

    @property
    def mean_loss(self) -> Float[Array, ""]:
        """The mean over the trials of the sum of all terms, which training minimises."""
        return jnp.asarray(self.mean_losses.total)


class AbstractModelUpdate(eqx.Module):
    """A learning rule: an update added to the model after each train step.

    A subclass supplies `__call__`, and `init` if it has a state.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp
        >>> from popsim.training import AbstractModelUpdate
        >>> class Forget(AbstractModelUpdate):
        ...     rate: float
        ...     def __call__(self, model, batch, state, *, key):
        ...         nothing = jax.tree.map(lambda _: None, model)
        ...         bias = model.network.readout.bias
        ...         update = eqx.tree_at(
        ...             lambda m: m.network.readout.bias, nothing, -self.rate * bias,
        ...             is_leaf=lambda leaf: leaf is None,
        ...         )
        ...         return update, state

        ```
    """

    def init(self, model: AbstractModel) -> PyTree[Array]:
        """Return the state before the first batch of one member, numbers or arrays; None by default."""
        return None

    @abc.abstractmethod
    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        """Return the change to add to the model of one member, and the next state of the rule.

        The change is a PyTree of the structure of the model, with None where nothing changes.

        **Arguments:**

        - `model`: the model after the optimizer and earlier updates.
        - `key`: a key for random draws, different for each batch, member and rule.
        """


class StatesUpdate(AbstractModelUpdate):
    """A model update from a function `(model, states) -> update`."""

    function: Callable[[Any, PyTree[Array]], PyTree]

    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        return self.function(model, batch.states), state


def is_model_update(node: Any) -> bool:
    """Return whether a node of a PyTree is a whole model update: a rule, or another callable."""
    return callable(node)


def as_model_updates(model_update_funcs: PyTree) -> tuple[AbstractModelUpdate, ...]:
    """Return the updates of a PyTree, in the order of its leaves."""
    leaves = jax.tree.leaves(model_update_funcs, is_leaf=is_model_update)
    for leaf in leaves:
        if not callable(leaf):
            raise ValueError(f"`model_update_funcs` must be a PyTree of functions, got the leaf {leaf!r}.")
    return tuple(leaf if isinstance(leaf, AbstractModelUpdate) else StatesUpdate(leaf) for leaf in leaves)


def update_model(
    updates: Sequence[AbstractModelUpdate],
    model: AbstractModel,
    batch: TrainedBatch,
    states: Sequence[PyTree[Array]],
    enabled: Bool[Array, " update"] | None,
    *,
    key: Key[Array, ""],
) -> tuple[AbstractModel, tuple[PyTree[Array], ...]]:
    """Apply each update in turn, to the model left by the one before."""
    carried = []
    for index, (update, state) in enumerate(zip(updates, states, strict=True)):
        # By position: a training resumes with the same draws only if the updates keep their order.
        update_key = key_stream(key, f"model update {index}")

        def make(current, state, update=update, update_key=update_key):
            change, next_state = update(current, batch, state, key=update_key)
            return eqx.apply_updates(current, change), next_state

        if enabled is None:
            model, state = make(model, state)
        else:
            model, state = _make_if(enabled[index], make, changed_leaves(update, model, batch), model, state)
        carried.append(state)
    return model, tuple(carried)


def _make_if(
    is_enabled: Bool[Array, ""], make: Callable, changed: PyTree[bool], model: AbstractModel, state: PyTree
) -> tuple[AbstractModel, PyTree]:
    """Return `make(model, state)` if enabled, else both unchanged."""
    # Both branches of `cond` must return the same arrays. Only what the update changes passes through it, so
    # that the rest of the model is not copied.
    changed_part, constant_part = eqx.partition(model, changed)

    def run_update(changed_part, state):
        model, next_state = make(eqx.combine(changed_part, constant_part), state)
        return eqx.filter(model, changed), next_state

    changed_part, state = jax.lax.cond(is_enabled, run_update, lambda *same: same, changed_part, state)
    return eqx.combine(changed_part, constant_part), state


def changed_leaves(update: AbstractModelUpdate, model: AbstractModel, batch: TrainedBatch) -> PyTree[bool]:
    """Return, for each leaf of a model, whether an update changes it."""

    def is_changed(delta, leaf):
        if delta is None:
            return jax.tree.map(lambda _: False, leaf)
        if not hasattr(leaf, "shape") or (leaf.shape, leaf.dtype) != (delta.shape, delta.dtype):
            raise ValueError(f"it would add {short_repr(delta)} to {short_repr(leaf)}.")
        return True

    def first_change(update: AbstractModelUpdate, model: AbstractModel, batch: TrainedBatch) -> PyTree:
        return update(model, batch, first_carry(update, model), key=seed_key(0))[0]

    change = eqx.filter_eval_shape(first_change, update, model, batch)
    try:
        return jax.tree.map(is_changed, change, model, is_leaf=lambda node: node is None)
    except (TypeError, ValueError) as error:
        function = getattr(update, "function", update)
        name = getattr(function, "__name__", type(function).__name__)
        raise ValueError(
            f"{name} of `model_update_funcs` must return a PyTree like the model, "
            f"with None where nothing changes: {error}"
        ) from error


def first_carry(update: AbstractModelUpdate, model: AbstractModel) -> PyTree[Array]:
    """Return the state of an update before the first batch, with numbers as arrays."""
    return jax.tree.map(jnp.asarray, update.init(model))
