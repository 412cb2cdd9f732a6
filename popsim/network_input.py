"""The input vector of a network at a time step: its order and its scaling."""

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from popsim._argument_shapes import check_of_one_model
from popsim._checks import as_float_array, check_finite, check_positive
from popsim.parameters import Constants

__all__ = ["Scaling", "inputs_by_name", "network_input"]


class Scaling(eqx.Module):
    """An affine scaling, (value - center) / scale.

    Both arguments are constants, which are not trained; see `popsim.is_parameter`.

    **Arguments:**

    - `center`: the value that is mapped to zero, in the unit of the value.
    - `scale`: the distance from `center` that is mapped to one, in the unit of the value.
    """

    constants: ClassVar[Constants] = "all"
    center: Float[Array, "*axes"] = eqx.field(converter=as_float_array)
    scale: Float[Array, "*axes"] = eqx.field(converter=as_float_array)

    def __check_init__(self):
        for name in ("center", "scale"):
            check_of_one_model(name, getattr(self, name))
        check_finite("center", self.center)
        check_positive("scale", self.scale)

    def __call__(self, value: Float[Array, " features"]) -> Float[Array, " features"]:
        """Return the scaled value, which is dimensionless."""
        return (value - self.center) / self.scale


def inputs_by_name(inputs: PyTree[Array]) -> dict[str, PyTree[Array]]:
    """Return the inputs of a trial by name; inputs without names are called "inputs"."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    return {"inputs": inputs} if jax.tree.leaves(inputs) else {}


def network_input(
    inputs: PyTree[Array], feedback: Mapping[str, Float[Array, " features"]], scaling: Mapping[str, Scaling]
) -> Float[Array, " inputs"]:
    """Return the input vector of a network at one step: the inputs, then the feedback, both sorted by name.

    **Arguments:**

    - `inputs`: the trial's inputs at this step, and what its environment shows.
    - `feedback`: the features that arrive at this step, by channel.
    - `scaling`: the scaling of inputs and channels, by name.
    """

    def flat(name: str, tree: PyTree[Array]) -> Array:
        vector = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])
        return scaling[name](vector) if name in scaling else vector

    named = inputs_by_name(inputs)
    parts = [flat(name, named[name]) for name in sorted(named)]
    parts += [flat(name, feedback[name]) for name in sorted(feedback)]
    return jnp.concatenate(parts)
