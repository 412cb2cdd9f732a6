"""Scaling of what enters a network: SI units are of very different sizes."""

import equinox as eqx
import jax
from jaxtyping import Array, Float

from popsim.checks import as_float_array, check_finite, check_positive


class Scaling(eqx.Module):
    """(value - center) / scale.

    **Arguments:**

    - `center`: what becomes zero, in the unit of the value.
    - `scale`: what becomes one, in the unit of the value.

    Training changes neither.

    **Raises:** `ValueError` if `center` is not finite, or `scale` not positive.
    """

    center: Float[Array, "*axes"] = eqx.field(converter=as_float_array)
    scale: Float[Array, "*axes"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_finite("center", self.center)
        check_positive("scale", self.scale)

    def __call__(self, value: Float[Array, " features"]) -> Float[Array, " features"]:
        """The scaled value, without unit."""
        center, scale = jax.lax.stop_gradient((self.center, self.scale))
        return (value - center) / scale
