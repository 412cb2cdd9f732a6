"""Updates of the model that no gradient makes: plasticity between training batches."""

import abc

import equinox as eqx
from jaxtyping import Array, Int, Key, PyTree

from popsim.loss import Loss, LossValues
from popsim.model import AbstractModel
from popsim.trial import Trial


class TrainedBatch(eqx.Module):
    """A training batch of one member, as its forward pass left it: what a learning rule may look at.

    - `model`: the model that ran the trials, before anything of this batch changed it.
    - `trials`: the trials; leaves lead with (trial,).
    - `keys`: the key with which each trial was simulated.
    - `initial_states`: the states before the first time step, with (trial,).
    - `states`: what `simulate` recorded, with (trial, time).
    - `losses`: the weighted terms of each trial.
    - `loss`: the loss, to score other runs of the same trials with.
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


class AbstractModelUpdate(eqx.Module):
    """A learning rule: what to add to a model after each train step.

    A subclass supplies `__call__`, and `init` if it carries something from batch to batch. For rules that
    need no more than the states, a plain function `(model, states) -> update` does as well.

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
        """What the rule carries before the first batch of one member: numbers or arrays; here nothing."""
        return None

    @abc.abstractmethod
    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        """The update of one member.

        **Arguments:**

        - `model`: the model as the optimizer and earlier updates left it.
        - `batch`: the batch.
        - `state`: what the rule carries.
        - `key`: for what the rule draws; another one for each batch, member and rule.

        **Returns:** what is added to the model, a PyTree of its structure with None where nothing
        changes, and what the rule carries on.
        """
