"""How likely the network is to choose wrongly."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.counted_mean import counted_mean, output_target
from popsim.losses.time_profile import AbstractTimeProfile, InWindow
from popsim.model import AbstractModel
from popsim.trial import Trial


class ChoiceError(AbstractLossTerm):
    """Σ_t c_t (1 - p_t) / Σ_t c_t, p the probability that the output gives to the right choice.

    y is the output of the network, as it is, y* the values of the `OutputTarget` and c its counts. With
    one output, for a choice between two, q = 1 / (1 + exp(-y)) and p = y* q + (1 - y*) (1 - q); with several,
    p = Σ_i y*_i softmax(y)_i. It is the share of errors of an agent that chooses by these probabilities,
    between 0 and 1, and is differentiable; but where the network is sure and wrong its gradient is small, so
    train with `CrossEntropy`, and with this beside it or after it. Zero where no step counts.

    **Arguments:**

    - `profile`: a factor of c, how much each time step counts; by default all alike.

    **Raises:** `ValueError` when called, unless the targets are an `OutputTarget` of as many outputs.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="choice error", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        output = states.network.output
        values = output_target(trial, output).values
        if output.shape[-1] == 1:
            chosen = jax.nn.sigmoid(output)
            right = (values * chosen + (1 - values) * (1 - chosen))[:, 0]
        else:
            right = jnp.sum(values * jax.nn.softmax(output), axis=-1)
        return counted_mean(1 - right, trial, self.profile)
