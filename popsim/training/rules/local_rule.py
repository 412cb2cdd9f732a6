"""Rules that change weights by what is active on both sides of them."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim.checks import as_float_array, check_non_negative, check_one_number
from popsim.model import AbstractModel
from popsim.training.model_updates import AbstractModelUpdate, TrainedBatch
from popsim.training.rules.synapses import Synapses


class AbstractLocalRule(AbstractModelUpdate):
    """dW = rate * change(pre, post, W), after each training batch. A subclass supplies `change`.

    **Arguments:**

    - `synapses`: the weights and the activity on both sides, such as `recurrent_synapses()`.
    - `rate`: how fast the weights learn; an array leaf.

    **Raises:** `ValueError` if `rate` is negative or not finite.

    !!! example

        ```python
        >>> import jax.numpy as jnp
        >>> from popsim.training.rules import AbstractLocalRule, mean_product, recurrent_synapses
        >>> class HebbWithForgetting(AbstractLocalRule):
        ...     def change(self, pre, post, weights):
        ...         return mean_product(post, pre) - 0.1 * weights
        >>> rule = HebbWithForgetting(recurrent_synapses(), rate=0.01)
        >>> rule.change(jnp.ones((5, 9, 2)), jnp.ones((5, 9, 1)), jnp.ones((1, 2))).tolist()
        [[0.8999999761581421, 0.8999999761581421]]

        ```
    """

    synapses: Synapses
    rate: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_one_number("rate", self.rate)
        check_non_negative("rate", self.rate)

    @abc.abstractmethod
    def change(
        self,
        pre: Float[Array, "trial time pre"],
        post: Float[Array, "trial time post"],
        weights: Float[Array, "post pre"],
    ) -> Float[Array, "post pre"]:
        """The change of the weights at a rate of one.

        **Arguments:**

        - `pre`, `post`: the activity on both sides of the weights.
        - `weights`: as the optimizer and earlier updates left them.
        """

    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        pre, post = self.synapses.pre_activity(batch), self.synapses.post_activity(batch)
        weights = self.synapses.weights(model)
        change = self.change(pre, post, weights)
        if change.shape != weights.shape:
            raise ValueError(
                f"`change` of {type(self).__name__} must return W[post, pre] of shape {weights.shape}, "
                f"got {change.shape}."
            )
        return self.synapses.update(model, self.rate * change), state


def mean_product(
    post: Float[Array, "trial time post"], pre: Float[Array, "trial time pre"]
) -> Float[Array, "post pre"]:
    """<post pre^T>: the mean over trials and time, a factor of 1 / (n_trials n_steps) to the sum."""
    n_trials, n_steps, _ = post.shape
    return jnp.einsum("kti,ktj->ij", post, pre) / (n_trials * n_steps)
