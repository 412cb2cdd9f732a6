"""An estimate and between which numbers it is likely to be."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.analysis.choices import check_choice

IntervalMethod = Literal["t", "standard error", "standard deviation", "range"]
METHODS: tuple[IntervalMethod, ...] = ("t", "standard error", "standard deviation", "range")


class Interval(NamedTuple):
    """A number, or an array of them, with the two ends of an interval around each.

    - `estimate`: in the unit of the data.
    - `low`, `high`: in the same unit.
    """

    estimate: Float[np.ndarray, "*axes"]
    low: Float[np.ndarray, "*axes"]
    high: Float[np.ndarray, "*axes"]


def two_members_or_more(name: str, values: AnyArray) -> Float[np.ndarray, "member ..."]:
    """The values in float64.

    **Raises:** `ValueError` if they are not finite, or there are fewer than two members.
    """
    converted = finite_float64(name, values)
    if converted.ndim < 1 or len(converted) < 2:
        raise ValueError(f"`{name}` must have two members or more, got shape {converted.shape}.")
    return converted


def check_confidence(confidence: float) -> None:
    """Raise `ValueError` unless the confidence is between 0 and 1, both excluded."""
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must be between 0 and 1, such as 0.95, got {confidence}.")


def mean_interval(values: AnyArray, *, method: IntervalMethod = "t", confidence: float = 0.95) -> Interval:
    """The mean over members and an interval around it. The unit of replication is the member.

    **Arguments:**

    - `values`: with axes (member, ...), one value of a member in each place: average over trials first. A
        history is (batch, member): give `loss.T`, or the batches of one member pass for members.
    - `method`: "t", where the mean of all members that could be trained is, with the chosen confidence, if
        they are normally distributed (`scipy.stats.t`); "standard error", one to each side; or how members
        spread: "standard deviation" (of n - 1), one to each side, and "range", the least and the most.
    - `confidence`: of the method "t".

    **Raises:** `ValueError` if there are fewer than two members, a value is not finite, the method is none of
    these, or `confidence` is not between 0 and 1.
    """
    check_choice("method", method, METHODS)
    check_confidence(confidence)
    members = two_members_or_more("values", values)
    mean = np.asarray(members.mean(axis=0))
    if method == "range":
        return Interval(mean, np.asarray(members.min(axis=0)), np.asarray(members.max(axis=0)))
    spread = members.std(axis=0, ddof=1)
    if method != "standard deviation":
        spread = spread / np.sqrt(len(members))
    if method == "t":
        from scipy.stats import t

        spread = spread * t.ppf((1 + confidence) / 2, len(members) - 1)
    return Interval(mean, np.asarray(mean - spread), np.asarray(mean + spread))
