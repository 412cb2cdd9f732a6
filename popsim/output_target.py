"""What a network without a body should put out."""

import equinox as eqx
from jaxtyping import Array, Float


class OutputTarget(eqx.Module):
    """The targets of a cognitive task: what the outputs should be, and when that counts.

    - `values`: what the outputs should be; for a choice among several, 1 for the right one and 0 for the
        others; for a choice between two with one output, 1 or 0.
    - `counts`: how much each time step counts, from 0 (not at all).

    Leading axes (member, trial) may stand before `time`.
    """

    values: Float[Array, "*axes time outputs"]
    counts: Float[Array, "*axes time"]
