"""How far what the network puts out is from what it should."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.loss import AbstractLossTerm
from popsim.losses.counted_mean import counted_mean, output_target
from popsim.losses.time_profile import AbstractTimeProfile, InWindow
from popsim.model import AbstractModel
from popsim.trial import Trial


class OutputError(AbstractLossTerm):
    """Σ_t c_t mean_i (y_ti - y*_ti)² / Σ_t c_t: the mean squared error where the output counts.

    y is the output of the network, y* the values of the `OutputTarget` and c its counts. Zero where no step
    counts.

    **Arguments:**

    - `profile`: a factor of c, how much each time step counts; by default all alike.

    **Raises:** `ValueError` when called, unless the targets are an `OutputTarget` of as many outputs.
    """

    profile: AbstractTimeProfile = eqx.field(default=InWindow(), kw_only=True)
    name: str = eqx.field(static=True, default="output error", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        output = states.network.output
        values = output_target(trial, output).values
        return counted_mean(jnp.mean((output - values) ** 2, axis=-1), trial, self.profile)
