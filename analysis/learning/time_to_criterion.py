"""How many batches a member needs until it is good enough, and stays so."""

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.arrays import AnyArray
from popsim.analysis.learning.learning_curve import smoothed
from popsim.analysis.learning.training_batches import ascending_batches
from popsim.checks import check_finite


def time_to_criterion(
    loss: Float[AnyArray, "batch member"],
    batch: Int[AnyArray, " batch"],
    criterion: float,
    *,
    smoothed_over: int = 1,
) -> Float[np.ndarray, " member"]:
    """The first batch from which the smoothed loss of each member stays at or below a criterion.

    A member whose loss dips below it and rises again has not learned until it is below for good. NaN where
    it is above the criterion, or not finite, in the last row.

    **Arguments:**

    - `loss`: of each member, or the size of a deviation.
    - `batch`: the training batch of each row, ascending.
    - `criterion`: in the unit of the loss.
    - `smoothed_over`: how many rows the loss is averaged over, each with those before it.

    **Raises:** `ValueError` if there are not as many, ascending batches as rows, `criterion` is not finite,
    or `smoothed_over` is not from one to the number of rows.
    """
    check_finite("criterion", criterion)
    course = smoothed(loss, smoothed_over)
    batches = ascending_batches(batch, len(course))
    is_good = course <= criterion
    stays_good = np.flip(np.logical_and.accumulate(np.flip(is_good, axis=0), axis=0), axis=0)
    first = np.argmax(stays_good, axis=0)
    return np.where(stays_good[-1], batches[first], np.nan)
