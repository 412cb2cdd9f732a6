"""Learning rules modulated by reward."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import as_float_array, check_fraction, check_positive
from popsim.model import AbstractModel
from popsim.training.rules.hebbian import RunningAverage
from popsim.training.rules.synapses import AbstractSynapticRule
from popsim.training.steps.model_updates import TrainedBatch

__all__ = ["AbstractRewardBaseline", "RunningBaseline", "BatchBaseline", "RewardModulatedHebb"]


class AbstractRewardBaseline(eqx.Module):
    """The expected reward of a trial. A subclass supplies `__call__`, and `init` if it has a state.

    !!! example

        ```python
        >>> import jax.numpy as jnp
        >>> from popsim.training.rules import AbstractRewardBaseline
        >>> class BestOfBatch(AbstractRewardBaseline):
        ...     def __call__(self, rewards, state):
        ...         return jnp.max(rewards), state
        >>> BestOfBatch()(jnp.array([-3.0, -1.0]), None)[0].item()
        -1.0

        ```
    """

    def init(self) -> PyTree[Array]:
        """Return the state before the first batch of one member; None by default."""
        return None

    @abc.abstractmethod
    def __call__(
        self, rewards: Float[Array, " trial"], state: PyTree[Array]
    ) -> tuple[Float[Array, ""], PyTree[Array]]:
        """Return the expected reward of each trial of a batch.

        **Arguments:**

        - `rewards`: the rewards of the batch.
        - `state`: the state.

        **Returns:** the expected reward, and the next state.
        """


class RunningBaseline(AbstractRewardBaseline):
    """The running average of the rewards of earlier batches; in the first batch, its own mean.

    **Arguments:**

    - `time_constant`: the time constant of the average, in batches; an array leaf.
    """

    time_constant: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_fields(self)
        check_positive("time_constant", self.time_constant)

    def init(self) -> RunningAverage:
        return RunningAverage.zeros_like(jnp.zeros(()))

    def __call__(
        self, rewards: Float[Array, " trial"], state: RunningAverage
    ) -> tuple[Float[Array, ""], RunningAverage]:
        mean = jnp.mean(rewards)
        expected = jnp.where(state.started, state.value, mean)
        return expected, state.with_batch(mean, self.time_constant)


class BatchBaseline(AbstractRewardBaseline):
    """The mean reward over all trials of the batch itself."""

    def __call__(self, rewards: Float[Array, " trial"], state: None) -> tuple[Float[Array, ""], None]:
        if rewards.size < 2:
            raise ValueError("`batch_size` must be at least 2 for BatchBaseline, got 1.")
        return jnp.mean(rewards), state


class RewardModulatedHebb(AbstractSynapticRule):
    """The three-factor rule dW = rate <(R - baseline) e_T>, where < > is the mean over trials.

    e_t = decay e_{t-1} + (post_t - average_{t-1}) pre_t^T, from e_0 = 0 to the last time step T,
    average_t = average_decay average_{t-1} + (1 - average_decay) post_t.

    The trace e accumulates the inputs that were active when units deviated from their recent average. If the
    reward R = -(total loss of the trial) exceeds the baseline, the weights change so that these inputs repeat
    the deviation. The deviations must come from noise of the units, such as `noise_std` of a `LeakyRNN`;
    without it nothing is explored. average_0 is the mean of post_1 over the trials of the batch: with post_1
    of the trial itself, all that follows its noise would count as a deviation of the opposite sign.

    The update follows the sign of the gradient, not its size: noise also enters the average, and is measured
    after the nonlinearity. `NodePerturbation` is exact.

    Legenstein, Chase, Schwartz & Maass 2010, J Neurosci 30:8400-8410; Hoerzer, Legenstein & Maass 2014, Cereb
    Cortex 24:677-690; reward at the end of a trial and a trace until then as in Miconi 2017, eLife 6:e20899,
    without the third power (the forms of these rules are checked against others' code of them).

    **Arguments:**

    - `synapses`: the weights and the activity on both sides, such as `recurrent_synapses()`.
    - `rate`: the learning rate; an array leaf.
    - `baseline`: the expected reward, such as `RunningBaseline(10)` or `BatchBaseline()`.
    - `decay`: of the trace per time step, from 0 to 1; 1 sums over the trial. An array leaf.
    - `average_decay`: of the average of post per time step, from 0 to 1; an array leaf.
    """

    baseline: AbstractRewardBaseline = eqx.field(kw_only=True)
    decay: Float[Array, ""] = eqx.field(converter=as_float_array, default=1.0, kw_only=True)
    average_decay: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.9, kw_only=True)

    def __check_init__(self):
        check_fraction("decay", self.decay)
        check_fraction("average_decay", self.average_decay)

    def init(self, model: AbstractModel) -> PyTree[Array]:
        return self.baseline.init()

    def __call__(
        self, model: AbstractModel, batch: TrainedBatch, state: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[PyTree, PyTree[Array]]:
        rewards = -jnp.asarray(batch.losses.total)
        expected, state = self.baseline(rewards, state)
        pre, post = self.synapses.pre_activity(batch), self.synapses.post_activity(batch)
        traces = jax.vmap(self.trace, in_axes=(0, 0, None))(pre, post, jnp.mean(post[:, 0], axis=0))
        change = jnp.einsum("k,kij->ij", rewards - expected, traces) / rewards.size
        return self.synapses.update(model, self.rate * change), state

    def trace(
        self, pre: Float[Array, "time pre"], post: Float[Array, "time post"], start: Float[Array, " post"]
    ) -> Float[Array, "post pre"]:
        """Return e_T, the eligibility trace of the weights at the end of one trial.

        **Arguments:**

        - `pre`, `post`: the activity on both sides.
        - `start`: the average of post before the trial.
        """

        def step(average, now):
            return average + (1 - self.average_decay) * (now - average), now - average

        _, deviations = jax.lax.scan(step, start, post)
        age = jnp.arange(post.shape[0] - 1, -1, -1, dtype=post.dtype)
        return jnp.einsum("t,ti,tj->ij", self.decay**age, deviations, pre)
