"""Gated recurrent units with a linear readout."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim.checks import check_positive_int
from popsim.networks.abstract import AbstractNetwork, NetworkState
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
        for name, size in (("n_inputs", n_inputs), ("n_units", n_units), ("n_outputs", n_outputs)):
            check_positive_int(name, size)
        self.cell = eqx.nn.GRUCell(n_inputs, n_units, key=key_stream(key, "cell"))
        self.readout = eqx.nn.Linear(n_units, n_outputs, key=key_stream(key, "readout"))
        self.n_inputs = n_inputs
        self.n_outputs = n_outputs

    def init(self, *, key: Key[Array, ""]) -> NetworkState:
        dtype = self.cell.weight_hh.dtype
        return NetworkState(jnp.zeros(self.cell.hidden_size, dtype), jnp.zeros(self.n_outputs, dtype))

    def step(
        self, inputs: Float[Array, " inputs"], state: NetworkState, *, key: Key[Array, ""]
    ) -> NetworkState:
        hidden = self.cell(inputs, state.hidden)
        return NetworkState(hidden, self.readout(hidden))
