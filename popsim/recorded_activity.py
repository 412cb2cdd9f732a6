"""Recorded activity: what was measured of neurons in a trial, for units of a network to follow."""

import equinox as eqx
from jaxtyping import Array, Float

from popsim._checks import as_float_array

__all__ = ["RecordedActivity"]


class RecordedActivity(eqx.Module):
    """The activity that was recorded from some units in a trial, and how much each number of it counts.

    - `values`: rates, or spike counts per time step, in the unit that the loss expects.
    - `counts`: the weight of each time step, with a last axis of one, or of each unit at each time step; at
        least 0. Zero where nothing was recorded, as in `RecordedActivity(rates, ~numpy.isnan(rates))`.

    Arrays may have leading axes (member, trial).
    """

    values: Float[Array, "*axes time units"] = eqx.field(converter=as_float_array)
    counts: Float[Array, "*axes time #units"] = eqx.field(converter=as_float_array)
