"""How surprised a network is by what it should choose."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.counted_mean import counted_mean
from popsim.model import AbstractModel
from popsim.network_model import NetworkModelState
from popsim.output_target import OutputTarget
from popsim.trial import Trial


class CrossEntropy(AbstractLossTerm):
    """Cross entropy of the outputs with the values of an `OutputTarget`, in nats.

    One output y is the log odds of the value 1: log(1 + e^y) - y value. Of several, the softmax gives the
    probabilities: -sum_k value_k log p_k; a time step whose values are all zero adds nothing. The mean
    over time steps, as much as each of these counts; zero where nothing counts.
    """

    name: str = eqx.field(static=True, default="cross entropy", kw_only=True)

    def __call__(self, states: NetworkModelState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        target: OutputTarget = trial.targets
        output = states.network.output
        if output.shape[-1] == 1:
            surprise = jnp.sum(jax.nn.softplus(output) - output * target.values, axis=-1)
        else:
            surprise = -jnp.sum(target.values * jax.nn.log_softmax(output, axis=-1), axis=-1)
        return counted_mean(surprise, target.counts)
