"""What reward is expected, for rules that learn from more or less than that."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from popsim.checks import as_float_array, check_positive
from popsim.training.rules.running_average import RunningAverage


class AbstractRewardBaseline(eqx.Module):
    """The reward that is expected in a trial. A subclass supplies `__call__`, and `init` if it carries
    something from batch to batch.

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
        """What is carried before the first batch of one member: by default nothing."""
        return None

    @abc.abstractmethod
    def __call__(
        self, rewards: Float[Array, " trial"], state: PyTree[Array]
    ) -> tuple[Float[Array, ""], PyTree[Array]]:
        """The reward that is expected in each trial of a batch.

        **Arguments:**

        - `rewards`: those of the batch.
        - `state`: what is carried.

        **Returns:** the expected reward, and what is carried on.
        """


class RunningBaseline(AbstractRewardBaseline):
    """The running average of the rewards of earlier batches; in the first batch the mean of that one.

    **Arguments:**

    - `time_constant`: of the average, in batches; an array leaf.

    **Raises:** `ValueError` if `time_constant` is not positive.
    """

    time_constant: Float[Array, ""] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_positive("time_constant", self.time_constant)

    def init(self) -> RunningAverage:
        return RunningAverage.like(jnp.zeros(()))

    def __call__(
        self, rewards: Float[Array, " trial"], state: RunningAverage
    ) -> tuple[Float[Array, ""], RunningAverage]:
        mean = jnp.mean(rewards)
        expected = jnp.where(state.started, state.value, mean)
        return expected, state.with_batch(mean, self.time_constant)


class BatchBaseline(AbstractRewardBaseline):
    """The mean reward of the batch itself, all its trials included.

    **Raises:** `ValueError` in training if a batch has a single trial: its reward is always as expected.
    """

    def __call__(self, rewards: Float[Array, " trial"], state: None) -> tuple[Float[Array, ""], None]:
        if rewards.size < 2:
            raise ValueError("`batch_size` must be at least 2 for BatchBaseline, got 1.")
        return jnp.mean(rewards), state
