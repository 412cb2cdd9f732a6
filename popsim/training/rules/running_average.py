"""An average over batches that forgets."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class RunningAverage(eqx.Module):
    """An average over batches, to be carried: `value`, and whether there was a batch yet."""

    value: Float[Array, "*shape"]
    started: Bool[Array, ""]

    @classmethod
    def like(cls, value: Float[Array, "*shape"]) -> "RunningAverage":
        """An average of arrays such as `value` before the first batch."""
        return cls(jnp.zeros_like(value), jnp.asarray(False))

    def with_batch(self, value: Float[Array, "*shape"], time_constant: Float[Array, ""]) -> "RunningAverage":
        """The average one batch on: average += (1 - exp(-1 / time_constant)) (value - average).

        The first batch sets it.

        **Arguments:**

        - `value`: that of the batch.
        - `time_constant`: in batches.
        """
        share = jnp.where(self.started, -jnp.expm1(-1 / time_constant), 1)
        return RunningAverage(self.value + share * (value - self.value), jnp.asarray(True))
