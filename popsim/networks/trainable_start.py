"""A network whose hidden state at the start of a trial is learned."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim._plain_values import plain_number
from popsim.networks.base import AbstractNetwork, NetworkStep, Projection, check_network
from popsim.randomness import seed_key

__all__ = ["TrainableStart"]


class TrainableStart(AbstractNetwork):
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
            lambda given, own: jnp.asarray(given, own.dtype), initial_hidden, start
        )
        self.n_inputs = network.n_inputs
        self.n_outputs = network.n_outputs

    def init(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        return self.initial_hidden

    def step(
        self, inputs: Float[Array, " inputs"], hidden: PyTree[Array], *, key: Key[Array, ""]
    ) -> PyTree[Array]:
        return self.network.step(inputs, hidden, key=key)

    def read_out(self, hidden: PyTree[Array]) -> Float[Array, " output"]:
        return self.network.read_out(hidden)

    def activity(self, hidden: PyTree[Array]) -> Float[Array, " unit"]:
        return self.network.activity(hidden)

    def with_activity(self, hidden: PyTree[Array], rates: Float[Array, " unit"]) -> PyTree[Array]:
        return self.network.with_activity(hidden, rates)

    def projections(self) -> dict[str, Projection]:
        """Return the projections of the network within."""
        return {name: _of_inner(projection) for name, projection in self.network.projections().items()}

    def with_dt(self, dt: float) -> "TrainableStart":
        """Return the network for another time step (s), with the same start."""
        return eqx.tree_at(lambda outer: outer.network, self, self.network.with_dt(dt))

    def check_dt(self, dt: float) -> None:
        self.network.check_dt(dt)


def _shapes(hidden: PyTree[Any]) -> PyTree[Any]:
    return jax.tree.map(jnp.shape, hidden)


def _of_inner(projection: Projection) -> Projection:
    """Return the projection of a network for one that holds it."""

    def within(read: Callable) -> Callable[[TrainableStart, NetworkStep], Array]:
        return lambda outer, step: read(outer.network, step)

    where, where_bias = projection.where, projection.where_bias
    return dataclasses.replace(
        projection,
        where=lambda outer: where(outer.network),
        pre=within(projection.pre),
        post=within(projection.post),
        where_bias=None if where_bias is None else lambda outer: where_bias(outer.network),
    )
