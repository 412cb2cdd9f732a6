"""The state of a network without a body."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim.networks import NetworkState


class NetworkModelState(eqx.Module):
    """What a `NetworkModel` carries from step to step.

    - `network`: the hidden units and the output of the network; it stands where it stands in a `LoopState`.
    - `received`: what the network received at this step; None unless a trial schedules an
        intervention after "sense".
    - `unit_input`: the current that its units received besides; None unless a trial schedules one.
    """

    network: NetworkState
    received: Float[Array, "*axes inputs"] | None = None
    unit_input: Float[Array, "*axes hidden"] | None = None
