"""The input vector of a network at a time step: its order and its scaling."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from popsim._shared.argument_shapes import check_of_one_model
from popsim._shared.checks import as_float_array, check_finite, check_positive
from popsim.parameters import Constants

__all__ = ["Scaling", "TrainedInputs", "inputs_by_name", "network_input"]


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedInputs:
    """The inputs with which a model was trained.

    As a static field of a model it takes no part where structures are compared, since all instances are
    equal: a trained model has the structure, and the compiled programs, of an untrained one.

    **Arguments:**

    - `sizes`: how many numbers each input has, by name; None for a model that was never trained.
    """

    sizes: dict[str, int] | None = dataclasses.field(default=None, compare=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainedInputs)

    def __hash__(self) -> int:
        return hash(TrainedInputs)

    def __repr__(self) -> str:
        return "not trained" if self.sizes is None else sizes_text(self.sizes)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `ValueError` unless inputs have the names and sizes of those of the training, if any."""
        if self.sizes is not None and self.sizes != dict(sizes):
            raise ValueError(
                f"`inputs` must be those with which the model was trained, {self}, got {sizes_text(sizes)}: "
                "a network knows them by their order, which follows from the names. Rename them or, to give "
                "the model inputs of another meaning, use dataclasses.replace(model, trained_inputs=None)."
            )


def as_trained_inputs(sizes: Any) -> TrainedInputs:
    """Return the sizes of inputs by name, or None, as `TrainedInputs`."""
    if isinstance(sizes, TrainedInputs):
        return sizes
    return TrainedInputs(None if sizes is None else dict(sizes))


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Return the sizes of inputs by name in words, such as "2 of 'target', 1 of 'go'"."""
    return ", ".join(f"{size} of {name!r}" for name, size in sizes.items()) or "none"


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
    return jnp.concatenate(parts) if parts else jnp.zeros(0)
