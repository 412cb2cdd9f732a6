"""Whether members that are alike in one respect are alike in another."""

import math
from itertools import permutations

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim.analysis.arrays import AnyArray, numpy_generator
from popsim.analysis.similarity.pairs import check_distances
from popsim.analysis.statistics.permutation import PermutationTest, permutation_test_result
from popsim.checks import check_positive_int


def matrix_permutation_test(
    first: Float[AnyArray, "member member"],
    second: Float[AnyArray, "member member"],
    *,
    n_permutations: int = 10_000,
    key: Key[jax.Array, ""],
) -> PermutationTest:
    """The correlation of two kinds of distance over pairs of members, and whether it is above chance.

    Mantel 1967, Cancer Res 27:209-220 (cited from memory): pairs that share a member are not independent,
    so the members of one matrix are exchanged. The unit of replication is the member.

    **Arguments:**

    - `first`, `second`: distances of all pairs of the same members, such as of activity and of hand paths.
    - `n_permutations`: how many orders of members are drawn. Where there are no more than this, all are
        gone through, and nothing is random.
    - `key`: of the draws.

    **Raises:** `ValueError` if these are not distances of the same three members or more, all of one are the
    same, or `n_permutations` is not positive.
    """
    check_positive_int("n_permutations", n_permutations)
    one, other = check_distances("first", first), check_distances("second", second)
    if one.shape != other.shape or len(one) < 3:
        raise ValueError(
            "`first` and `second` must be of the same three members or more, "
            f"got shapes {one.shape} and {other.shape}."
        )
    above = np.triu_indices(len(one), 1)
    for name, values in (("first", one), ("second", other)):
        if np.ptp(values[above]) == 0:
            raise ValueError(f"`{name}` must have distances that differ, got {values[above][0]} for all.")
    exact = math.factorial(len(one)) <= n_permutations
    if exact:
        orders = np.array(list(permutations(range(len(one)))))
    else:
        orders = numpy_generator(key).permuted(np.tile(np.arange(len(one)), (n_permutations, 1)), axis=1)
    wanted = _standardised(one[above])
    null = np.array([wanted @ _standardised(other[np.ix_(order, order)][above]) for order in orders])
    return permutation_test_result(float(wanted @ _standardised(other[above])), null, exact)


def _standardised(values: Float[np.ndarray, " pair"]) -> Float[np.ndarray, " pair"]:
    centred = values - values.mean()
    return centred / np.linalg.norm(centred)
