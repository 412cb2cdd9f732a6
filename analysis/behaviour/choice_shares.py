"""How often a choice was made, by the evidence for it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from popsim.analysis.arrays import AnyArray, finite_float64


class ChoiceShares(NamedTuple):
    """How often a choice was made at each coherence.

    - `coherence`: those that there are, from the lowest.
    - `share`: of the trials of that coherence, from 0 to 1.
    - `n_trials`: of each coherence.
    """

    coherence: Float[np.ndarray, " level"]
    share: Float[np.ndarray, "*axes level"]
    n_trials: Int[np.ndarray, " level"]


def choice_shares(
    coherence: Float[AnyArray, " trial"], chose_right: Bool[AnyArray, "*axes trial"]
) -> ChoiceShares:
    """The points of a psychometric curve, for each member.

    **Arguments:**

    - `coherence`: of each trial, signed: positive for the choice that is counted.
    - `chose_right`: whether that choice was made, with leading axes such as (member).

    **Raises:** `ValueError` if `coherence` is not finite, or there are not as many choices.
    """
    signed, choices = finite_float64("coherence", coherence), np.asarray(chose_right)
    if choices.shape[-1:] != signed.shape:
        raise ValueError(f"`chose_right` must end with {signed.size} trials, got shape {choices.shape}.")
    levels, which, counts = np.unique(signed, return_inverse=True, return_counts=True)
    is_of = np.equal(which[:, None], np.arange(levels.size)).astype(np.float64)
    return ChoiceShares(levels, choices.astype(np.float64) @ is_of / counts, counts)
