"""What a network tells of its synapses: which weights they are, and what is active on both sides."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float


class NetworkStep(eqx.Module):
    """One time step of a network: what it received, and its hidden units before and after.

    `unit_input` is the current that the units received besides, None if there was none.
    """

    received: Float[Array, "*time inputs"]
    before: Float[Array, "*time hidden"]
    after: Float[Array, "*time hidden"]
    unit_input: Float[Array, "*time hidden"] | None = None


def _all_rows() -> slice:
    return slice(None)


@dataclasses.dataclass(frozen=True)
class Projection:
    """The synapses from one group of units to another: weights W[post, pre].

    **Arguments:**

    - `where`: picks from the network the array that holds the weights.
    - `pre`, `post`: from the network and a `NetworkStep` without the axis of time, the activity of the
        presynaptic and of the postsynaptic units at that step.
    - `rows`: the rows of the array that are these weights.
    - `where_bias`: picks the array by which the input of the postsynaptic units can be shifted: adding d
        to the bias does what W pre + d would do. None if there is none.
    - `bias_rows`: the rows of the bias that belong to the postsynaptic units.
    """

    where: Callable[[Any], Array]
    pre: Callable[[Any, NetworkStep], Float[Array, " pre"]]
    post: Callable[[Any, NetworkStep], Float[Array, " post"]]
    rows: slice = dataclasses.field(default_factory=_all_rows)
    where_bias: Callable[[Any], Array] | None = None
    bias_rows: slice = dataclasses.field(default_factory=_all_rows)
