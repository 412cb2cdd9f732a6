"""Two conditions, or two trainings, of the same members."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim.analysis.arrays import AnyArray, numpy_generator
from popsim.analysis.statistics.interval import mean_interval, two_members_or_more
from popsim.analysis.statistics.permutation import PermutationTest, permutation_test_result
from popsim.checks import check_positive_int


class PairedComparison(NamedTuple):
    """How much second values differ from the first ones of the same members.

    - `difference`: the mean over members of second minus first, in the unit of the values.
    - `low`, `high`: its interval by the t distribution, see `mean_interval`.
    - `effect_size`: the difference in standard deviations of differences over members (Cohen's d_z; Lakens
        2013, Front Psychol 4:863, cited from memory); NaN if all members differ by the same.
    - `test`: whether the size of the difference is beyond chance, by the signs of members' differences.
    """

    difference: float
    low: float
    high: float
    effect_size: float
    test: PermutationTest


def paired_comparison(
    first: Float[AnyArray, " member"],
    second: Float[AnyArray, " member"],
    *,
    confidence: float = 0.95,
    n_permutations: int = 10_000,
    key: Key[jax.Array, ""],
) -> PairedComparison:
    """Whether the same members have larger or smaller values in a second condition.

    The unit of replication is the member. The test is two-sided and takes each member's difference as
    likely to have been of the other sign; n members have 2^n signs, so that the smallest p is 2 / 2^n: five
    members cannot give less than .0625.

    **Arguments:**

    - `first`, `second`: one value of each member in each condition: average over trials first.
    - `confidence`: of the interval, between 0 and 1.
    - `n_permutations`: how many times signs are drawn. Where there are no more signs than this, all are
        gone through, and nothing is random.
    - `key`: of the draws.

    **Raises:** `ValueError` if there are fewer than two members, not the same number in both, a value is not
    finite, `confidence` is not between 0 and 1, or `n_permutations` is not positive.
    """
    check_positive_int("n_permutations", n_permutations)
    before, after = two_members_or_more("first", first), two_members_or_more("second", second)
    if before.shape != after.shape or before.ndim != 1:
        raise ValueError(
            "`first` and `second` must have one value of each of the same members, "
            f"got shapes {before.shape} and {after.shape}."
        )
    differences = after - before
    n_members = len(differences)
    interval = mean_interval(differences, confidence=confidence)
    exact = n_members < 60 and 2**n_members <= n_permutations
    if exact:
        bits = (np.arange(2**n_members)[:, None] >> np.arange(n_members)) & 1
    else:
        bits = numpy_generator(key).integers(2, size=(n_permutations, n_members))
    null = np.abs((1.0 - 2.0 * bits) @ differences) / n_members
    spread = float(differences.std(ddof=1))
    mean = float(interval.estimate)
    return PairedComparison(
        mean,
        float(interval.low),
        float(interval.high),
        mean / spread if spread > 1e-12 * abs(mean) else float("nan"),
        permutation_test_result(abs(mean), null, exact),
    )
