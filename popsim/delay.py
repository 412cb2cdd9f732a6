"""A delay line: the values of the last steps, shifted by one at each step."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class DelayBuffer(eqx.Module):
    """The last `delay` values of a signal, the oldest first."""

    values: Float[Array, "delay features"]

    @classmethod
    def filled(cls, value: Float[Array, " features"], n_steps: int) -> "DelayBuffer":
        """A buffer of `n_steps` steps in which the signal has always been `value`."""
        return cls(jnp.broadcast_to(value, (n_steps, *value.shape)))

    def push(self, value: Float[Array, " features"]) -> tuple[Float[Array, " features"], "DelayBuffer"]:
        """Put in the value of this step, and get out the one of `delay` steps ago and the new buffer."""
        values = jnp.concatenate([self.values, value[None]])
        return values[0], DelayBuffer(values[1:])
