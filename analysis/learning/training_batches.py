"""The training batches of a course."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


def ascending_batches(batch: AnyArray, n_rows: int, *, fewest: int = 1) -> Float[np.ndarray, " batch"]:
    """The numbers of the batches.

    **Raises:** `ValueError` if they are not finite and ascending, not one for each row, or too few.
    """
    batches = finite_float64("batch", batch)
    if batches.shape != (n_rows,) or n_rows < fewest or np.any(np.diff(batches) <= 0):
        raise ValueError(
            f"`batch` must be {fewest} ascending numbers or more, one for each of {n_rows} rows, "
            f"got shape {batches.shape}."
        )
    return batches
