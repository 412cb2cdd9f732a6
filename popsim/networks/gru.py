"""Gated recurrent units with a linear readout."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim.networks.abstract import AbstractNetwork, check_sizes
from popsim.networks.projection import Projection
from popsim.randomness import key_stream


class GRUNetwork(AbstractNetwork):
    """A layer of gated recurrent units and a linear readout.

    The units are `equinox.nn.GRUCell`: Cho et al. 2014, arXiv 1406.1078, with the reset gate applied
    after the recurrent product. A trial starts with all units at zero.

    **Arguments:**

    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `key`: from which the weights are drawn, uniformly within 1 / sqrt(n_units).

    **Raises:** `ValueError` if a size is not a positive whole number.
    """

    cell: eqx.nn.GRUCell
    readout: eqx.nn.Linear
    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)

    def __init__(self, n_inputs: int, n_units: int, n_outputs: int, *, key: Key[Array, ""]):
        check_sizes(n_inputs, n_units, n_outputs)
        self.cell = eqx.nn.GRUCell(n_inputs, n_units, key=key_stream(key, "cell"))
        self.readout = eqx.nn.Linear(n_units, n_outputs, key=key_stream(key, "readout"))
        self.n_inputs = n_inputs
        self.n_outputs = n_outputs

    def init(self, *, key: Key[Array, ""]) -> Float[Array, " hidden"]:
        return jnp.zeros(self.cell.hidden_size, self.cell.weight_hh.dtype)

    def step(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " hidden"], *, key: Key[Array, ""]
    ) -> Float[Array, " hidden"]:
        return self.cell(inputs, hidden)

    def read_out(self, hidden: Float[Array, " hidden"]) -> Float[Array, " output"]:
        return self.readout(hidden)

    def candidate(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " hidden"]
    ) -> Float[Array, " hidden"]:
        """The candidate activation, which the update gate mixes with the units before the step.

        n = tanh(W_in u + b + r * (W_hn h + b_n)), with the reset gate r = sigmoid(W_ir u + W_hr h + b_r).

        **Arguments:**

        - `inputs`: u, what the network receives at the step.
        - `hidden`: h, the units before the step.
        """
        cell: Any = self.cell
        reset_input, _, candidate_input = jnp.split(cell.weight_ih @ inputs + cell.bias, 3)
        reset_hidden, _, candidate_hidden = jnp.split(cell.weight_hh @ hidden, 3)
        reset = jax.nn.sigmoid(reset_input + reset_hidden)
        return jnp.tanh(candidate_input + reset * (candidate_hidden + cell.bias_n))

    def projections(self) -> dict[str, Projection]:
        """The recurrent and the input weights of the candidate activation, and the readout of the units.

        The bias of the recurrent ones is within the reset gate, as the recurrent product is.
        """
        n_units = self.cell.hidden_size
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
        readout = Projection(
            where=lambda network: network.readout.weight,
            pre=lambda network, step: step.after,
            post=lambda network, step: network.read_out(step.after),
            where_bias=lambda network: network.readout.bias,
        )
        return {"recurrent": recurrent, "input": received, "readout": readout}
