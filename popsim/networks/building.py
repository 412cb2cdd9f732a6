"""What networks are built of: a linear readout of their units, noise, initial weights and projections."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key, ScalarLike

from popsim._compiled import jit_fast_compile
from popsim._shared import checks
from popsim._shared.argument_shapes import OneOrEach, check_one_or_each
from popsim._shared.checks import WholeNumber
from popsim._shared.plain_values import plain_number
from popsim.networks.base import AbstractNetwork, Hidden, Output, Projection, Units
from popsim.noise import AbstractNoise, GaussianNoise, NoNoise
from popsim.randomness import key_stream

__all__ = ["AbstractReadoutNetwork"]

READOUT_AXES = {"readout.weight": ("output", "unit"), "readout.bias": ("output",)}
"""`AbstractNetwork.parameter_axes` of a linear readout of the units."""

RATE_AXES = {"input_weights": ("unit", "input"), "bias": ("unit",), **READOUT_AXES}
RECURRENT_AXES = {"recurrent_weights": ("unit", "presynaptic_unit"), **RATE_AXES}


class AbstractReadoutNetwork(AbstractNetwork):
    """Base class of networks that put out `output_fn` of a linear readout of the rates of their units."""

    readout: eqx.AbstractVar[eqx.nn.Linear]
    output_fn: Callable[[Array], Array] | None = eqx.field(static=True, kw_only=True, default=None)
    n_inputs: int = eqx.field(static=True, converter=plain_number, kw_only=True)
    n_outputs: int = eqx.field(static=True, converter=plain_number, kw_only=True)

    def rates(self, hidden: Hidden) -> Float[Array, "*axes unit"]:
        """Return what each unit sends; by default its activity."""
        return self.activity(hidden)

    def read_out(self, hidden: Hidden) -> Output:
        return self._output_for(self.rates(hidden))

    def _output_for(self, rates: Units) -> Output:
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


class AbstractNoisyNetwork(AbstractReadoutNetwork):
    """Base class of networks with noise on the units."""

    noise: eqx.AbstractVar[AbstractNoise]

    def _set_units(
        self,
        sizes: tuple[int, int, int],
        noise_std: OneOrEach,
        output_fn: Callable[[Array], Array] | None,
        output_bias: OneOrEach,
        key: Key[Array, ""],
    ) -> None:
        """Set what all such networks have; `sizes` are those of inputs, units and outputs."""
        self.n_inputs, n_units, self.n_outputs = sizes
        self.noise = noise_of("noise_std", noise_std, n_units, "units")
        self.output_fn = output_fn
        check_one_or_each("output_bias", output_bias, self.n_outputs, "outputs")
        checks.check_finite("output_bias", output_bias)
        output_bias = checks.as_float_array(output_bias) if np.ndim(output_bias) else output_bias
        readout = _draw_readout(n_units, self.n_outputs, key=key)
        # Not in the compiled function, of which there would be one for each number.
        self.readout = eqx.tree_at(
            lambda linear: linear.bias, readout, replace_fn=lambda bias: bias + output_bias
        )


class AbstractRateNetwork(AbstractNoisyNetwork):
    """Base class of networks whose units add up recurrent input, weighted inputs, and a bias.

    `recurrent_field` names the field that holds the recurrent weights, for learning rules; None if none does.
    """

    recurrent_field: ClassVar[str | None] = None
    input_weights: Float[Array, "*members units inputs"]
    bias: Float[Array, "*members units"]
    readout: eqx.nn.Linear

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent and input weights and the readout. The activity of a unit is its rate."""
        received = Projection(
            where=lambda network: network.input_weights,
            pre=lambda network, step: step.received,
            post=lambda network, step: network.rates(step.after),
            where_bias=lambda network: network.bias,
        )
        projections = {"input": received, **super().projections()}
        if (name := self.recurrent_field) is None:
            return projections
        recurrent = dataclasses.replace(
            received,
            where=lambda network: getattr(network, name),
            pre=lambda network, step: network.rates(step.before),
        )
        return {"recurrent": recurrent, **projections}


class RecurrentWeights(eqx.Module):
    """A weight for each pair of units.

    A second base class declares the recurrent weights of popsim's networks, so that they come before what
    rate networks share: what draws for all parameters at once, such as `EvolutionStrategies`, follows the
    order of the fields.
    """

    recurrent_weights: Float[Array, "*members units units"]  # [post, pre]


def as_sizes(n_inputs: WholeNumber, n_units: WholeNumber, n_outputs: WholeNumber) -> tuple[int, int, int]:
    """Return the sizes of a network, also from NumPy, as Python integers."""
    checks.check_non_negative_int("n_inputs", n_inputs)
    checks.check_positive_int("n_units", n_units)
    checks.check_positive_int("n_outputs", n_outputs)
    return int(n_inputs), int(n_units), int(n_outputs)


def check_gain(name: str, gain: ScalarLike) -> None:
    """Raise `ValueError` unless a gain of weights is one number that is at least zero."""
    check_one_or_each(name, gain)
    checks.check_non_negative(name, gain)


@jit_fast_compile
def _draw_readout(n_units: int, n_outputs: int, *, key: Key[Array, ""]) -> eqx.nn.Linear:
    """Draw the readout of a network of this key."""
    return eqx.nn.Linear(n_units, n_outputs, key=key_stream(key, "readout"))


def gaussian_weights(
    name: str, shape: tuple[int, ...], gain: ScalarLike = 1.0, *, key: Key[Array, ""]
) -> Float[Array, "post pre"]:
    """Draw weights of variance gain² / (number of inputs), by the stream `name` of the key of a network."""
    return gain * jax.random.normal(key_stream(key, name), shape) / max(shape[1], 1) ** 0.5


def noise_of(name: str, std: OneOrEach, size: int, plural: str) -> AbstractNoise:
    """Check the standard deviation of noise on units or inputs, and return the noise; none for 0."""
    check_one_or_each(name, std, size, plural)
    checks.check_non_negative(name, std)
    return GaussianNoise(std) if checks.is_traced(std) or np.any(std) else NoNoise()
