"""What tasks ask of numbers that each trial draws: that they are in range, and what is typical of them."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float

from popsim.distributions import AbstractDistribution
from popsim.per_member import has_per_member


def check_drawn(name: str, distribution: AbstractDistribution, check: Callable[[str, Any], None]) -> None:
    """Raise `ValueError` unless the lowest and the highest number that may be drawn pass a check.

    What differs between members is looked at when the distribution is made, and not here.

    **Arguments:**

    - `name`: the argument that holds the distribution, for the error message.
    - `distribution`: from which trials draw.
    - `check`: such as `popsim.checks.check_positive`.
    """
    if has_per_member(distribution):
        return
    for bound in distribution.bounds():
        check(name, bound)


def middle_of(distribution: AbstractDistribution) -> Float[Array, "*shape"]:
    """Half-way between the lowest and the highest number that may be drawn, as validation trials have it."""
    low, high = distribution.bounds()
    return (low + high) / 2
