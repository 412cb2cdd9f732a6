"""What networks are built of: a linear readout of their units, noise, initial weights and projections."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key, PyTree, ScalarLike

from popsim._shared.argument_shapes import OneOrEach, check_one_or_each
from popsim._shared.checks import (
    WholeNumber,
    as_float_array,
    check_finite,
    check_non_negative,
    check_positive_int,
    is_traced,
    short_repr,
)
from popsim._shared.plain_values import plain_number
from popsim.networks.base import AbstractNetwork, NetworkStep, Projection
from popsim.noise import AbstractNoise, GaussianNoise, NoNoise
from popsim.randomness import key_stream

__all__ = ["AbstractReadoutNetwork"]

READOUT_AXES = {"readout.weight": ("output", "unit"), "readout.bias": ("output",)}
"""`AbstractNetwork.parameter_axes` of a linear readout of the units."""

RATE_AXES = {
    "recurrent_weights": ("unit", "presynaptic_unit"),
    "input_weights": ("unit", "input"),
    "bias": ("unit",),
    **READOUT_AXES,
}


class AbstractReadoutNetwork(AbstractNetwork):
    """Base class of networks that put out `output_fn` of a linear readout of the rates of their units."""

    readout: eqx.AbstractVar[eqx.nn.Linear]
    output_fn: Callable[[Array], Array] | None = eqx.field(static=True, kw_only=True, default=None)
    n_inputs: int = eqx.field(static=True, converter=plain_number, kw_only=True)
    n_outputs: int = eqx.field(static=True, converter=plain_number, kw_only=True)

    def rates(self, hidden: PyTree[Array]) -> Float[Array, "*axes unit"]:
        """Return what each unit sends; by default its activity."""
        return self.activity(hidden)

    def read_out(self, hidden: PyTree[Array]) -> Float[Array, " output"]:
        return self._output_for(self.rates(hidden))

    def _output_for(self, rates: Float[Array, " unit"]) -> Float[Array, " output"]:
        output = self.readout(rates)
        return output if self.output_fn is None else self.output_fn(output)

    def projections(self) -> dict[str, Projection]:
        readout = Projection(
            where=lambda network: network.readout.weight,
            pre=lambda network, step: network.rates(step.after),
            post=lambda network, step: network.read_out(step.after),
            where_bias=lambda network: network.readout.bias,
        )
        return {"readout": readout}


def projection_to_units(
    where: Callable[[Any], Array],
    pre: Callable[[Any, NetworkStep], Array] = lambda network, step: network.rates(step.before),
) -> Projection:
    """Return the projection to the rates of all units, by default from those one step earlier."""
    return Projection(
        where=where,
        pre=pre,
        post=lambda network, step: network.rates(step.after),
        where_bias=lambda network: network.bias,
    )


def input_projection() -> Projection:
    """Return the projection from the inputs to the rates of all units."""
    return projection_to_units(lambda network: network.input_weights, lambda _, step: step.received)


def as_sizes(n_inputs: WholeNumber, n_units: WholeNumber, n_outputs: WholeNumber) -> tuple[int, int, int]:
    """Return the sizes of a network, also from NumPy, as Python integers."""
    for name, size in (("n_inputs", n_inputs), ("n_units", n_units), ("n_outputs", n_outputs)):
        check_positive_int(name, size)
    return int(n_inputs), int(n_units), int(n_outputs)


def check_function(name: str, function: Any, example: str) -> None:
    """Raise `ValueError` unless the argument called `name` is a function of an array."""
    if not callable(function):
        raise ValueError(f"`{name}` must be a function such as {example}, got {short_repr(function)}.")


def prepare_readout(
    output_fn: Any, output_bias: OneOrEach, n_outputs: int
) -> tuple[Callable[[Array], Array] | None, OneOrEach]:
    """Return the function and the initial bias of a readout, the latter as one number or an array."""
    if output_fn is not None:
        check_function("output_fn", output_fn, "jax.nn.sigmoid")
    check_one_or_each("output_bias", output_bias, n_outputs, "outputs")
    check_finite("output_bias", output_bias)
    return output_fn, as_float_array(output_bias) if np.ndim(output_bias) else output_bias


def linear_readout(
    n_units: int, n_outputs: int, output_bias: OneOrEach, *, key: Key[Array, ""]
) -> eqx.nn.Linear:
    """Draw the readout of a network of this key, to whose bias `output_bias` is added."""
    readout = eqx.nn.Linear(n_units, n_outputs, key=key_stream(key, "readout"))
    return eqx.tree_at(lambda linear: linear.bias, readout, replace_fn=lambda bias: bias + output_bias)


def gaussian_weights(
    name: str, shape: tuple[int, int], gain: ScalarLike = 1.0, *, key: Key[Array, ""]
) -> Float[Array, "post pre"]:
    """Draw Gaussian weights, called `name`, of a network of this key: of variance gain² over their inputs."""
    return gain * jax.random.normal(key_stream(key, name), shape) / shape[1] ** 0.5


def noise_of(name: str, std: OneOrEach, size: int, plural: str) -> AbstractNoise:
    """Check the standard deviation of noise on units or inputs, and return the noise; none for 0."""
    check_one_or_each(name, std, size, plural)
    check_non_negative(name, std)
    return GaussianNoise(std) if is_traced(std) or np.any(std) else NoNoise()
