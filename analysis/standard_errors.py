"""How sure the values of a fit are."""

import numpy as np
from jaxtyping import Float


def standard_errors(slopes: Float[np.ndarray, "row value"]) -> Float[np.ndarray, " value"]:
    """The roots of the diagonal of (S'S)^-1, whatever the units of the values are.

    S are the derivatives of what is observed by the values, in standard deviations of a row. Infinite if
    columns of S, each taken with its own length, go with each other.

    **Arguments:**

    - `slopes`: S.
    """
    lengths = np.linalg.norm(slopes, axis=0)
    infinite = np.full(lengths.size, np.inf)
    if len(slopes) < lengths.size or not np.all(lengths > 0):
        return infinite
    _, singular, directions = np.linalg.svd(slopes / lengths, full_matrices=False)
    if singular[-1] < 1e-12 * singular[0]:
        return infinite
    return np.linalg.norm(directions.T / singular, axis=1) / lengths
