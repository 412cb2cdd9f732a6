"""A network whose hidden state at the start of a trial is learned."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from popsim._checks import check_castable, check_finite
from popsim._plain_values import plain_number
from popsim.networks.base import AbstractNetwork, check_network
from popsim.networks.wrapper import AbstractNetworkWrapper
from popsim.parameters import LearnedByArgument
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

    learned_by_argument: ClassVar[LearnedByArgument] = {"initial_hidden": "initial_hidden"}
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
        for leaf, like in zip(jax.tree.leaves(initial_hidden), jax.tree.leaves(start), strict=True):
            check_finite("initial_hidden", leaf)
            check_castable("`initial_hidden`", jnp.result_type(leaf), like.dtype)
        self.network = network
        self.initial_hidden = jax.tree.map(
            lambda value, like: jnp.asarray(value, like.dtype), initial_hidden, start
        )
        self.n_inputs = network.n_inputs
        self.n_outputs = network.n_outputs

    def init(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        return self.initial_hidden

    def with_dt(self, dt: float) -> "TrainableStart":
        """Return the network for another time step (s), with the same start.

        A network with delays is refused: what is on its way at the start has a number for each time step.
        """
        moved = super().with_dt(dt)
        before, after = (_start_shapes(each.network) for each in (self, moved))
        if before != after:
            raise ValueError(
                f"`network` must have no delays for its learned start to be moved to dt = {dt} s, got a "
                f"{type(self.network).__name__} whose hidden state would change its shapes from {before} to "
                f"{after}."
            )
        return moved


def _shapes(hidden: PyTree[Any]) -> PyTree[Any]:
    return jax.tree.map(jnp.shape, hidden)


def _start_shapes(network: AbstractNetwork) -> list[tuple[int, ...]]:
    start = eqx.filter_eval_shape(lambda network: network.init(key=seed_key(0)), network)
    return [leaf.shape for leaf in jax.tree.leaves(start)]
