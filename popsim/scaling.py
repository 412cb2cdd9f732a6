"""Scaling of what enters a network: SI units are of very different sizes."""

from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from popsim.checks import as_float_array, check_finite, check_positive
from popsim.parameters import Constants


class Scaling(eqx.Module):
    """(value - center) / scale.

    **Arguments:**

    - `center`: what becomes zero, in the unit of the value.
    - `scale`: what becomes one, in the unit of the value.

    Both are constants, which training leaves alone: see `popsim.is_parameter`.

    **Raises:** `ValueError` if `center` is not finite, or `scale` not positive.
    """

    constants: ClassVar[Constants] = "all"
    center: Float[Array, "*axes"] = eqx.field(converter=as_float_array)
    scale: Float[Array, "*axes"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        check_finite("center", self.center)
        check_positive("scale", self.scale)

    def __call__(self, value: Float[Array, " features"]) -> Float[Array, " features"]:
        """The scaled value, without unit."""
        return (value - self.center) / self.scale
