"""The base class of networks that hold another one and change something of it."""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim.networks.base import AbstractNetwork, NetworkStep, Projection

__all__ = ["AbstractNetworkWrapper"]

WrapperType = TypeVar("WrapperType", bound="AbstractNetworkWrapper")


class AbstractNetworkWrapper(AbstractNetwork):
    """Base class of networks that are another network, `network`, but for what a subclass overrides.

    The hidden state is that of the network within.
    """

    network: eqx.AbstractVar[AbstractNetwork]

    def init(self, *, key: Key[Array, ""]) -> PyTree[Array]:
        return self.network.init(key=key)

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

    def unit_groups(self) -> dict[str, Int[np.ndarray, " unit"]]:
        return self.network.unit_groups()

    def step_within(self, step: NetworkStep) -> NetworkStep:
        """Return a step of this network as the network within has it; by default the same.

        **Arguments:**

        - `step`: the step, without time axis.
        """
        return step

    def projections(self) -> dict[str, Projection]:
        """Return the projections of the network within."""
        return {name: of_inner(projection) for name, projection in self.network.projections().items()}

    def with_dt(self: WrapperType, dt: float) -> WrapperType:
        """Return the network for another time step (s); all but the network within stays as it is."""
        return eqx.tree_at(lambda outer: outer.network, self, self.network.with_dt(dt))

    def check_dt(self, dt: float) -> None:
        self.network.check_dt(dt)


def of_inner(projection: Projection) -> Projection:
    """Return the projection of a network for one that holds it as `network`."""

    def within(read: Callable) -> Callable[[AbstractNetworkWrapper, NetworkStep], Array]:
        return lambda outer, step: read(outer.network, outer.step_within(step))

    where, where_bias = projection.where, projection.where_bias
    return dataclasses.replace(
        projection,
        where=lambda outer: where(outer.network),
        pre=within(projection.pre),
        post=within(projection.post),
        where_bias=None if where_bias is None else lambda outer: where_bias(outer.network),
    )
