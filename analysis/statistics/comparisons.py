"""Paired comparisons over members."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim.analysis._arrays import AnyArray, check_axes, numpy_generator
from popsim.analysis.statistics.intervals import as_member_values, mean_interval

__all__ = [
    "PermutationTest",
    "PairedComparison",
    "paired_comparison",
]


class PermutationTest(NamedTuple):
    """A statistic and its distribution under random labels.

    - `statistic`: of the data.
    - `p`: the share of labellings with a statistic at least as large, counting that of the data, so that p is
        never 0 (Phipson & Smyth 2010, Stat Appl Genet Mol Biol 9:39, as in `scipy.stats.permutation_test`).
    - `null` [labelling]: the statistic of each labelling; it includes the data if `exact`.
    - `exact`: whether all labellings were enumerated, rather than drawn.
    """

    statistic: float
    p: float
    null: Float[np.ndarray, " labelling"]
    exact: bool

    def __repr__(self) -> str:
        labellings = (
            f"{'all ' if self.exact else ''}{len(self.null)}{'' if self.exact else ' random'} labellings"
        )
        return f"PermutationTest(statistic={self.statistic:.4g}, p={self.p:.3g}, {labellings})"


def permutation_test_result(
    statistic: float, null: Float[np.ndarray, " labelling"], exact: bool
) -> PermutationTest:
    """Return the test in which large statistics count against the null hypothesis."""
    rounding = 1e-10 * max(abs(statistic), float(np.abs(null).max()))
    n_far = int(np.count_nonzero(null >= statistic - rounding))
    p = n_far / len(null) if exact else (n_far + 1) / (len(null) + 1)
    return PermutationTest(float(statistic), p, null, exact)


class PairedComparison(NamedTuple):
    """The difference between two values of the same members.

    - `difference`: the mean over members of second minus first, in the unit of the values.
    - `low`, `high`: its interval by the t distribution, see `mean_interval`.
    - `effect_size`: the mean difference divided by the standard deviation of the differences over members
        (Cohen's d_z; Lakens 2013, Front Psychol 4:863, as in `cohens.d` of the R package misty); NaN if all
        differences are equal.
    - `test`: of whether the size of the difference exceeds chance, by flipping the signs of the differences.
    """

    difference: float
    low: float
    high: float
    effect_size: float
    test: PermutationTest

    def __repr__(self) -> str:
        return (
            f"PairedComparison(difference={self.difference:.4g}, low={self.low:.4g}, high={self.high:.4g}, "
            f"effect_size={self.effect_size:.3g}, test={self.test!r})"
        )


def paired_comparison(
    first: Float[AnyArray, " member"],
    second: Float[AnyArray, " member"],
    *,
    confidence: float = 0.95,
    n_permutations: int = 10_000,
    key: Key[jax.Array, ""],
) -> PairedComparison:
    """Compare two conditions measured in the same members, with an interval and a sign-flip test.

    The unit of replication is the member. The test is two-sided: under the null hypothesis, each member's
    difference is as likely to have the opposite sign. With n members there are 2^n sign patterns, so the
    smallest p is 2 / 2^n: five members cannot give less than .0625.

    **Arguments:**

    - `first`, `second`: one value per member in each condition: average over trials first.
    - `confidence`: of the interval, between 0 and 1.
    - `n_permutations`: the number of random sign patterns. If there are no more than this, all are
        enumerated, and nothing is random.
    - `key`: for the draws.
    """
    before, after = as_member_values("first", first), as_member_values("second", second)
    check_axes("first", before, "member")
    check_axes("second", after, f"member={len(before)}")
    differences = after - before
    n_members = len(differences)
    interval = mean_interval(differences, confidence=confidence)
    generator = numpy_generator(key)
    exact = n_members < 60 and 2**n_members <= n_permutations
    if exact:
        bits = (np.arange(2**n_members)[:, None] >> np.arange(n_members)) & 1
    else:
        bits = generator.integers(2, size=(n_permutations, n_members))
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
