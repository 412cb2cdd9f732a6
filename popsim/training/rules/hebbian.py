"""Hebbian learning rules."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from popsim._shared.checks import as_float_array, check_positive
from popsim.model import AbstractModel
from popsim.training.rules.synapses import AbstractSynapticRule
from popsim.training.steps.model_updates import TrainedBatch

__all__ = [
    "RunningAverage",
    "AbstractLocalRule",
    "mean_product",
    "Hebb",
    "AntiHebb",
    "Oja",
    "CovarianceHebb",
    "DifferentialHebb",
    "BCM",
]


class RunningAverage(eqx.Module):
    """A running average over batches: its value, and whether there was a batch yet."""

    value: Float[Array, "*shape"]
    started: Bool[Array, ""]

    @classmethod
    def zeros_like(cls, value: Float[Array, "*shape"]) -> "RunningAverage":
        """Return the average, before the first batch, of arrays such as `value`."""
        return cls(jnp.zeros_like(value), jnp.asarray(False))

    def with_batch(self, value: Float[Array, "*shape"], time_constant: Float[Array, ""]) -> "RunningAverage":
        """Return the average after a batch: average += (1 - exp(-1 / time_constant)) (value - average).

        The first batch sets it. The time constant is in batches.
        """
        fraction = jnp.where(self.started, -jnp.expm1(-1 / time_constant), 1)
        return RunningAverage(self.value + fraction * (value - self.value), jnp.asarray(True))


Pre = Float[Array, "trial time pre"]
Post = Float[Array, "trial time post"]
Weights = Float[Array, "post pre"]


class AbstractLocalRule(AbstractSynapticRule):
    """The update dW = rate * change(pre, post, W) after each training batch. A subclass supplies `change`.

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

    @abc.abstractmethod
    def change(self, pre: Pre, post: Post, weights: Weights) -> Weights:
        """Return the change at a rate of one of the weights, those that earlier updates have left."""

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


def mean_product(post: Post, pre: Pre) -> Weights:
    """Return <post pre^T>, the mean over trials and time: the sum divided by n_trials n_steps."""
    n_trials, n_steps, _ = post.shape
    return jnp.einsum("kti,ktj->ij", post, pre) / (n_trials * n_steps)


class Hebb(AbstractLocalRule):
    """Hebb's rule dW = rate <post pre^T>, where < > is the mean over trials and time.

    Units that are active together strengthen their connection. Nothing bounds the weights. Hebb 1949, The
    Organization of Behavior.
    """

    def change(self, pre: Pre, post: Post, weights: Weights) -> Weights:
        return mean_product(post, pre)


class AntiHebb(AbstractLocalRule):
    """The anti-Hebbian rule dW = -rate <post pre^T>, where < > is the mean over trials and time.

    Between units it decorrelates them, usually with `zero_diagonal` (Földiák 1990, Biol Cybern 64:165-170,
    whose rule, -rate (post pre - p²), keeps the correlation that units of mean activity p have by chance).
    """

    def change(self, pre: Pre, post: Post, weights: Weights) -> Weights:
        return -mean_product(post, pre)


class Oja(AbstractLocalRule):
    """Oja's rule dW_ij = rate (<post_i pre_j> - <post_i²> W_ij), where < > is the mean over trials and time.

    The weights of a linear unit converge to the unit vector along the first principal component of its input.
    Oja 1982, J Math Biol 15:267-273.
    """

    def change(self, pre: Pre, post: Post, weights: Weights) -> Weights:
        decay = jnp.mean(post**2, axis=(0, 1))
        return mean_product(post, pre) - decay[:, None] * weights


class CovarianceHebb(AbstractLocalRule):
    """The rule dW = rate <(post - <post>) (pre - <pre>)^T>, < > the mean over trials and time of a batch.

    The covariance with a divisor of n_trials n_steps. Sejnowski 1977, J Math Biol 4:303-321, as in eq. 5 of
    Westerman & Miranda 2002, J New Music Res 31:367-375.
    """

    def change(self, pre: Pre, post: Post, weights: Weights) -> Weights:
        return mean_product(post - jnp.mean(post, axis=(0, 1)), pre - jnp.mean(pre, axis=(0, 1)))


class DifferentialHebb(AbstractLocalRule):
    """The rule dW = rate <Δpost Δpre^T>: units that change together strengthen their connection.

    Δx_t = x_t - x_{t-1}; < > is the mean over trials and over the n_steps - 1 differences of a trial. After
    Kosko 1986, without the decay of the weights, as Mitchison 1991, Neural Comput 3:312-320, gives his rule.
    """

    def change(self, pre: Pre, post: Post, weights: Weights) -> Weights:
        return mean_product(jnp.diff(post, axis=1), jnp.diff(pre, axis=1))


class BCM(AbstractSynapticRule):
    """The BCM rule dW_ij = rate <post_i (post_i - theta_i) pre_j>, < > the mean over trials and time.

    The threshold theta is the running average over batches of <post²>, including this batch; the first batch
    sets it. Bienenstock, Cooper & Munro 1982, J Neurosci 2:32-48, with the threshold of Intrator & Cooper
    1992, in the common form post (post - theta) with theta = <post²>.

    **Arguments:**

    - `synapses`, `rate`: as for `AbstractSynapticRule`.
    - `time_constant`: of the threshold, in batches; an array leaf. The threshold must move faster than the
        weights, or they grow without bound.
    """

    time_constant: Float[Array, ""] = eqx.field(converter=as_float_array, kw_only=True)

    def __check_init__(self):
        check_positive("time_constant", self.time_constant)

    def init(self, model: AbstractModel) -> RunningAverage:
        return RunningAverage.zeros_like(self.synapses.weights(model)[:, 0])

    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: RunningAverage, *, key: Key[Array, ""]
    ) -> tuple[PyTree, RunningAverage]:
        pre, post = self.synapses.pre_activity(batch), self.synapses.post_activity(batch)
        threshold = state.with_batch(jnp.mean(post**2, axis=(0, 1)), self.time_constant)
        change = mean_product(post * (post - threshold.value), pre)
        return self.synapses.update(model, self.rate * change), threshold
