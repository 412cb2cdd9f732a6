"""The labels of trials: their conditions, or the levels of a factor."""

import numpy as np
from jaxtyping import Int, Shaped

from popsim.analysis.arrays import AnyArray

ALIKE = 1e-6
"""How far apart numbers are that are one label, relative to the largest: the rounding of single precision."""


def check_trials(name: str, of_trials: AnyArray, n_trials: int) -> None:
    """Raise `ValueError` unless there is one value for each trial of the activity."""
    if np.shape(of_trials) != (n_trials,):
        raise ValueError(
            f"`{name}` must have one value for each of {n_trials} trials, got shape {np.shape(of_trials)}."
        )


def different_labels(
    labels: Shaped[AnyArray, " trial"],
) -> tuple[Shaped[np.ndarray, " label"], Int[np.ndarray, " trial"]]:
    """The different labels in ascending order, and which of them each trial has.

    Numbers that are not whole and differ by rounding, 1e-6 of the largest, are one label: the lowest of them.

    **Arguments:**

    - `labels`: whole numbers, names, or numbers such as directions.
    """
    found, which = np.unique(np.asarray(labels), return_inverse=True)
    if not np.issubdtype(found.dtype, np.floating) or not np.isfinite(found).all():
        return found, which
    begins = np.diff(found, prepend=-np.inf) > ALIKE * np.abs(found).max(initial=0)
    return found[begins], (np.cumsum(begins) - 1)[which]
