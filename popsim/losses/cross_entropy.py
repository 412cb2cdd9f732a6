"""How surprising the right choice is to the network."""

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


class CrossEntropy(AbstractLossTerm):
    """Σ_t c_t H_t / Σ_t c_t, in nats, H the cross entropy between right choice and output.

    y is the output of the network, as it is, y* the values of the `OutputTarget` and c its counts. With
    one output, for a choice between two, p = 1 / (1 + exp(-y)) and H = -y* log p - (1 - y*) log(1 - p); with
    several, p = softmax(y) and H = -Σ_i y*_i log p_i. Zero where no step counts. A network that knows
    nothing has log 2, or log of the number of outputs.

    **Arguments:**

    - `profile`: a factor of c, how much each time step counts; by default all alike.

    **Raises:** `ValueError` when called, unless the targets are an `OutputTarget` of as many outputs.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="cross entropy", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        output = states.network.output
        values = output_target(trial, output).values
        if output.shape[-1] == 1:
            surprise = (jax.nn.softplus(output) - values * output)[:, 0]
        else:
            surprise = -jnp.sum(values * jax.nn.log_softmax(output), axis=-1)
        return counted_mean(surprise, trial, self.profile)
