"""How far the outputs of a network are from what they should be."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.counted_mean import counted_mean
from popsim.model import AbstractModel
from popsim.network_model import NetworkModelState
from popsim.output_target import OutputTarget
from popsim.trial import Trial


class OutputError(AbstractLossTerm):
    """Mean of (y - values)² over the outputs and over the time steps, as much as each of these counts.

    With c the counts of an `OutputTarget`, sum_t c_t mean_k (y_tk - values_tk)² / sum_t c_t; zero where
    nothing counts.
    """

    name: str = eqx.field(static=True, default="output error", kw_only=True)

    def __call__(self, states: NetworkModelState, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        target: OutputTarget = trial.targets
        squared = jnp.mean((states.network.output - target.values) ** 2, axis=-1)
        return counted_mean(squared, target.counts)
