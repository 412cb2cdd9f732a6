"""Gated recurrent units with a linear readout."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim.networks.abstract import AbstractNetwork, check_sizes
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
