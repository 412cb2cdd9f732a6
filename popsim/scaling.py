"""Scaling of what enters a network: SI units are of very different sizes."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


def _as_float(value) -> Array:
    return jnp.asarray(value, jnp.result_type(float))


class Scaling(eqx.Module):
    """(value - center) / scale.

    **Arguments:**

    - `center`: what becomes zero, in the unit of the value.
    - `scale`: what becomes one, in the unit of the value.
    """

    center: Float[Array, "*axes"] = eqx.field(converter=_as_float)
    scale: Float[Array, "*axes"] = eqx.field(converter=_as_float)

    def __call__(self, value: Float[Array, " features"]) -> Float[Array, " features"]:
        """The scaled value, without unit."""
        return (value - self.center) / self.scale
