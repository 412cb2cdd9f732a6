"""The plain recurrent network."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, ScalarLike

from popsim._shared.argument_shapes import OneOrEach, check_one_or_each
from popsim._shared.checks import WholeNumber, check_non_negative
from popsim._shared.plain_values import plain_number
from popsim.networks.base import (
    RATE_AXES,
    AbstractNetwork,
    Projection,
    as_sizes,
    check_function,
    linear_readout,
    noise_of_units,
    prepare_readout,
)
from popsim.networks.cell import readout_projection
from popsim.noise import AbstractNoise
from popsim.randomness import key_stream

__all__ = ["VanillaRNN"]


class VanillaRNN(AbstractNetwork):
    """A layer of units h' = f(W_rec h + W_in u + b) with a linear readout (Elman 1990, Cogn Sci 14:179-211).

    A `LeakyRNN` with dt = tau has the same dynamics, in other variables: its `hidden` is the argument of f. A
    trial starts with all units at zero.

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `nonlinearity`: f.
    - `noise_std`: the standard deviation of noise on the units after each step, one for all units or one per
        unit; 0 draws no random numbers.
    - `gain`: the standard deviation of W_rec times sqrt(n_units).
    - `output_fn`, `output_bias`: of the readout, as of a `GRUNetwork`.
    - `key`: for the initial weights.
    """

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = RATE_AXES
    recurrent_weights: Float[Array, "*members units units"]  # [post, pre]
    input_weights: Float[Array, "*members units inputs"]
    bias: Float[Array, "*members units"]
    readout: eqx.nn.Linear
    noise: AbstractNoise
    nonlinearity: Callable[[Array], Array] = eqx.field(static=True)
    output_fn: Callable[[Array], Array] | None = eqx.field(static=True)
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(
        self,
        n_inputs: WholeNumber,
        n_units: WholeNumber,
        n_outputs: WholeNumber,
        *,
        nonlinearity: Callable[[Array], Array] = jnp.tanh,
        noise_std: OneOrEach = 0.0,
        gain: ScalarLike = 0.9,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        n_inputs, n_units, n_outputs = as_sizes(n_inputs, n_units, n_outputs)
        check_one_or_each("gain", gain)
        check_non_negative("gain", gain)
        check_function("nonlinearity", nonlinearity, "jnp.tanh")
        self.noise = noise_of_units(noise_std, n_units)
        self.output_fn, output_bias = prepare_readout(output_fn, output_bias, n_outputs)
        recurrent = jax.random.normal(key_stream(key, "recurrent"), (n_units, n_units))
        received = jax.random.normal(key_stream(key, "input"), (n_units, n_inputs))
        self.recurrent_weights = gain * recurrent / n_units**0.5
        self.input_weights = received / n_inputs**0.5
        self.bias = jnp.zeros(n_units)
        self.readout = linear_readout(n_units, n_outputs, output_bias, key=key_stream(key, "readout"))
        self.nonlinearity = nonlinearity
        self.n_inputs = n_inputs
        self.n_outputs = n_outputs

    def init(self, *, key: Key[Array, ""]) -> Float[Array, " unit"]:
        return jnp.zeros_like(self.bias)

    def step(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " unit"], *, key: Key[Array, ""]
    ) -> Float[Array, " unit"]:
        drive = self.recurrent_weights @ hidden + self.input_weights @ inputs + self.bias
        return self.noise(self.nonlinearity(drive), key=key)

    def read_out(self, hidden: Float[Array, " unit"]) -> Float[Array, " output"]:
        output = self.readout(hidden)
        return output if self.output_fn is None else self.output_fn(output)

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent weights, the input weights and the readout."""
        recurrent = Projection(
            where=lambda network: network.recurrent_weights, where_bias=lambda network: network.bias
        )
        received = Projection(
            where=lambda network: network.input_weights,
            pre=lambda network, step: step.received,
            where_bias=lambda network: network.bias,
        )
        return {"recurrent": recurrent, "input": received, "readout": readout_projection()}
