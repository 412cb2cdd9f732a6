"""A network whose hidden state at the start of a trial is learned."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from popsim._plain_values import plain_number
from popsim.networks.base import AbstractNetwork, check_network
from popsim.networks.wrapper import AbstractNetworkWrapper
from popsim.randomness import seed_key

__all__ = ["TrainableStart"]


class TrainableStart(AbstractNetworkWrapper):
    """A network whose hidden state at the start of a trial is learned like its weights.

    ```python
    network = popsim.networks.TrainableStart(popsim.networks.LSTMNetwork(3, 64, 1, key=key))
    ```

    All else is that of the network within, `network.network`. Each member of an ensemble learns a start of
    its own.

    **Arguments:**

    - `network`: any network.
    - `initial_hidden`: the start before training, of the structure of the hidden state; None for that of the
        network.
    """

    network: AbstractNetwork
    initial_hidden: PyTree[Array]
    n_inputs: int = eqx.field(static=True, converter=plain_number)
    n_outputs: int = eqx.field(static=True, converter=plain_number)

    def __init__(self, network: AbstractNetwork, initial_hidden: PyTree[Array] | None = None):
        check_network(network)
        start = network.init(key=seed_key(0))
        if initial_hidden is None:
            initial_hidden = start
        elif _shapes(initial_hidden) != _shapes(start):
            raise ValueError(
                "`initial_hidden` must be of the structure of the hidden state of the network, "
                f"{_shapes(start)}, got {_shapes(initial_hidden)}."
            )
        self.network = network
        self.initial_hidden = jax.tree.map(
            lambda value, like: jnp.asarray(value, like.dtype), initial_hidden, start
        )
        self.n_inputs = network.n_inputs
        self.n_outputs = network.n_outputs

    def init(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        return self.initial_hidden


def _shapes(hidden: PyTree[Any]) -> PyTree[Any]:
    return jax.tree.map(jnp.shape, hidden)
