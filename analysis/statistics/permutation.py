"""What permutation tests have in common."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class PermutationTest(NamedTuple):
    """A statistic beside its values when labels mean nothing.

    - `statistic`: of the data.
    - `p`: the share of labellings with a statistic at least as far out, that of the data among them, so
        that it is never 0 (Phipson & Smyth 2010, Stat Appl Genet Mol Biol 9:39, cited from memory).
    - `null` [labelling]: the statistic of each labelling; that of the data among them where all were gone
        through.
    - `exact`: whether all labellings were gone through, rather than drawn.
    """

    statistic: float
    p: float
    null: Float[np.ndarray, " labelling"]
    exact: bool


def permutation_test_result(
    statistic: float, null: Float[np.ndarray, " labelling"], exact: bool
) -> PermutationTest:
    """The test whose large statistics are against the null hypothesis."""
    rounding = 1e-10 * max(abs(statistic), float(np.abs(null).max()))
    n_far = int(np.count_nonzero(null >= statistic - rounding))
    p = n_far / len(null) if exact else (n_far + 1) / (len(null) + 1)
    return PermutationTest(float(statistic), p, null, exact)
