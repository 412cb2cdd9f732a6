"""In how many pieces a movement was made."""

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.arrays import AnyArray, finite_float64


def count_speed_peaks(
    speed: Float[AnyArray, "*axes trial time"], *, prominence: float = 0.05
) -> Int[np.ndarray, "*axes trial"]:
    """How many peaks each speed profile has; more than one is a sign of submovements.

    Before and after the trial the hand is taken to rest.

    **Arguments:**

    - `speed`: of the hand, in m/s, see `hand_speed`.
    - `prominence`: how far a peak must rise above the higher of the valleys beside it
        (`scipy.signal.find_peaks`), as a share of the largest speed of the trial; above 0 and below 1.

    **Raises:** `ValueError` if `speed` is not finite, or `prominence` not above 0 and below 1.
    """
    from scipy.signal import find_peaks

    if not 0 < prominence < 1:
        raise ValueError(f"`prominence` must be above 0 and below 1, got {prominence}.")
    values = finite_float64("speed", speed)
    at_rest = np.zeros_like(values[..., :1])
    profiles = np.concatenate([at_rest, values, at_rest], axis=-1).reshape(-1, values.shape[-1] + 2)
    counts = [find_peaks(own, prominence=prominence * own.max())[0].size for own in profiles]
    return np.array(counts, dtype=int).reshape(values.shape[:-1])
