"""The singular values of a matrix without structure: independent Gaussian entries of one variance."""

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim.analysis.arrays import numpy_generator
from popsim.checks import check_positive, check_positive_int


def gaussian_participation_ratio(n_rows: int, n_columns: int) -> float:
    """What `participation_ratio_of_singular_values` is of a Gaussian matrix, M x N: (M N + 2) / (M + N + 1).

    The ratio of the exact means E (tr W'W)² = M N (M N + 2) and E tr (W'W)² = M N (M + N + 1) (the moments
    of a Wishart matrix, derived), for large matrices M N / (M + N). The mean of the ratio differs from it
    by a share of order 1 / (M N); `gaussian_singular_values` gives draws.

    **Raises:** `ValueError` if a number is not positive.
    """
    check_positive_int("n_rows", n_rows)
    check_positive_int("n_columns", n_columns)
    return (n_rows * n_columns + 2) / (n_rows + n_columns + 1)


def gaussian_singular_values(
    n_rows: int, n_columns: int, *, n_draws: int = 100, norm: float = 1.0, key: Key[jax.Array, ""]
) -> Float[np.ndarray, "draw mode"]:
    """Singular values of Gaussian matrices that were drawn and brought to one Frobenius norm.

    **Arguments:**

    - `n_rows`, `n_columns`: of the matrix.
    - `n_draws`: how many matrices.
    - `norm`: sqrt(sum_i s_i²) of each, such as that of a change of weights.
    - `key`: for the draws.

    **Returns:** the largest first.

    **Raises:** `ValueError` if a number is not positive.
    """
    for name, value in (("n_rows", n_rows), ("n_columns", n_columns), ("n_draws", n_draws)):
        check_positive_int(name, value)
    check_positive("norm", norm)
    drawn = numpy_generator(key).standard_normal((n_draws, n_rows, n_columns))
    values = np.linalg.svd(drawn, compute_uv=False)
    return norm * values / np.linalg.norm(values, axis=-1, keepdims=True)
