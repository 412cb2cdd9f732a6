"""Gated recurrent units."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim._argument_shapes import OneOrEach
from popsim._checks import WholeNumber
from popsim._plain_values import plain_number
from popsim.networks.base import READOUT_AXES, Projection, as_sizes, prepare_readout
from popsim.networks.cell import AbstractCellNetwork, initial_layers, noise_of_units, readout_projection
from popsim.noise import AbstractNoise

__all__ = ["GRUNetwork"]


class GRUNetwork(AbstractCellNetwork):
    """A layer of gated recurrent units with a readout.

    The units are `equinox.nn.GRUCell`: Cho et al. 2014, arXiv 1406.1078, with the reset gate applied after
    the recurrent product. A trial starts with all units at zero.

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `noise_std`: the standard deviation of noise on the units after each step, one for all units or one per
        unit; 0 draws no random numbers.
    - `output_fn`: applied to the linear readout, such as `jax.nn.sigmoid` for muscle excitations, or None.
    - `output_bias`: added to the initial bias of the readout, one number or one per output: with a sigmoid,
        -3 gives an untrained network that hardly excites any muscle.
    - `key`: for the initial weights, drawn uniformly within 1 / sqrt(n_units).
    """

    parameter_axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cell.weight_ih": ("gate_unit", "input"),  # reset, update and candidate units
        "cell.weight_hh": ("gate_unit", "presynaptic_unit"),
        "cell.bias": ("gate_unit",),
        "cell.bias_n": ("unit",),
        **READOUT_AXES,
    }
    cell: eqx.nn.GRUCell
    readout: eqx.nn.Linear
    noise: AbstractNoise
    output_fn: Callable[[Array], Array] | None = eqx.field(static=True)
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(
        self,
        n_inputs: WholeNumber,
        n_units: WholeNumber,
        n_outputs: WholeNumber,
        *,
        noise_std: OneOrEach = 0.0,
        output_fn: Callable[[Array], Array] | None = None,
        output_bias: OneOrEach = 0.0,
        key: Key[Array, ""],
    ):
        n_inputs, n_units, n_outputs = as_sizes(n_inputs, n_units, n_outputs)
        self.noise = noise_of_units(noise_std, n_units)
        self.output_fn, output_bias = prepare_readout(output_fn, output_bias, n_outputs)
        sizes = (n_inputs, n_units, n_outputs)
        self.cell, self.readout = initial_layers(eqx.nn.GRUCell, *sizes, output_bias, key)
        self.n_inputs = n_inputs
        self.n_outputs = n_outputs

    def init(self, *, key: Key[Array, ""]) -> Float[Array, " hidden"]:
        return jnp.zeros(self.cell.hidden_size, self.cell.weight_hh.dtype)

    def candidate(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " hidden"]
    ) -> Float[Array, " hidden"]:
        """Return the candidate activation, which the update gate mixes with the units before the step.

        n = tanh(W_in u + b + r * (W_hn h + b_n)), with the reset gate r = sigmoid(W_ir u + W_hr h + b_r).

        **Arguments:**

        - `inputs`: u, the inputs at the step.
        - `hidden`: h, the units before the step.
        """
        # Repeats what Equinox's cell computes, which returns only the mixture.
        cell: Any = self.cell
        reset_input, _, candidate_input = jnp.split(cell.weight_ih @ inputs + cell.bias, 3)
        reset_hidden, _, candidate_hidden = jnp.split(cell.weight_hh @ hidden, 3)
        reset = jax.nn.sigmoid(reset_input + reset_hidden)
        return jnp.tanh(candidate_input + reset * (candidate_hidden + cell.bias_n))

    def projections(self) -> dict[str, Projection]:
        """Return the recurrent and the input weights of the candidate activation, and the readout.

        The bias of the recurrent weights is inside the reset gate, like the recurrent product.
        """
        n_units = self.cell.hidden_size
        # Equinox stacks the weights of reset gate, update gate and candidate in this order.
        candidate = slice(2 * n_units, 3 * n_units)
        recurrent = Projection(
            where=lambda network: network.cell.weight_hh,
            pre=lambda network, step: step.before,
            post=lambda network, step: network.candidate(step.received, step.before),
            rows=candidate,
            where_bias=lambda network: network.cell.bias_n,
        )
        received = Projection(
            where=lambda network: network.cell.weight_ih,
            pre=lambda network, step: step.received,
            post=lambda network, step: network.candidate(step.received, step.before),
            rows=candidate,
            where_bias=lambda network: network.cell.bias,
            bias_rows=candidate,
        )
        return {"recurrent": recurrent, "input": received, "readout": readout_projection()}
