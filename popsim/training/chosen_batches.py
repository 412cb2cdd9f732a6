"""After which batches to record: for `save_model_trainables` and `save_trial_specs`."""

import numpy as np
from jaxtyping import Int

from popsim.checks import check_positive_int


def every_nth_batch(n_batches: int, n: int) -> Int[np.ndarray, " kept"]:
    """Every n-th batch of a training, its last one always.

    **Arguments:**

    - `n_batches`: how many batches the training has.
    - `n`: one of how many is kept.

    **Raises:** `ValueError` if one of them is not a positive whole number.
    """
    check_positive_int("n_batches", n_batches)
    check_positive_int("n", n)
    return np.union1d(np.arange(n - 1, n_batches, n), [n_batches - 1])


def log_spaced_batches(n_batches: int, n: int) -> Int[np.ndarray, " kept"]:
    """Up to `n` batches of a training, evenly spaced on a logarithmic scale: dense where learning is fast.

    Batches early on would coincide; there are fewer than `n` then. The first and the last are among them.

    **Arguments:**

    - `n_batches`: how many batches the training has.
    - `n`: how many of them, at least two.

    **Raises:** `ValueError` if one of them is not a positive whole number, or `n` is below two.
    """
    check_positive_int("n_batches", n_batches)
    check_positive_int("n", n)
    if n < 2:
        raise ValueError(f"`n` must be at least 2, for the first batch and the last, got {n}.")
    return np.unique(np.rint(np.geomspace(1, n_batches, n)).astype(int)) - 1
