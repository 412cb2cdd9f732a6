"""What is left of adaptation when the world is suddenly as before."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


def after_effect(
    deviation: Float[AnyArray, "*axes trial"], baseline: Float[AnyArray, "*axes trial"]
) -> Float[np.ndarray, "*axes"]:
    """By how much trials with the field off deviate after adaptation, compared with those before it.

    The mean over trials of `deviation` less `baseline`, in m if they are. After adaptation it has the other
    sign than the first deviations in the field (Shadmehr & Mussa-Ivaldi 1994, J Neurosci 14:3208-3224).

    **Arguments:**

    - `deviation`: of each trial with the field off, such as `maximum_perpendicular_deviation`.
    - `baseline`: of the same trials before any field; leading axes may be (batch, member).

    **Raises:** `ValueError` if a number is not finite, or the shapes differ.
    """
    after, before = finite_float64("deviation", deviation), finite_float64("baseline", baseline)
    if after.shape != before.shape:
        raise ValueError(
            f"`baseline` must be of the trials of `deviation`, shape {after.shape}, got {before.shape}."
        )
    return np.asarray(np.mean(after - before, axis=-1))
