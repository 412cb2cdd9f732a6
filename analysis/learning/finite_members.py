"""The members that a population's loss can be averaged over."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray


def finite_members(loss: Float[AnyArray, "batch member"]) -> Float[np.ndarray, "batch finite_member"]:
    """The losses of the members whose losses are finite in all batches: of those that did not fail.

    **Arguments:**

    - `loss`: the total loss of each member, above zero, such as `run.history.total_loss.values`.

    **Raises:** `ValueError` if `loss` has other axes, such as that of the terms, there is no such member, or
    a loss of theirs is not above zero.
    """
    values = np.asarray(loss, np.float64)
    dims = getattr(loss, "dims", ("batch", "member"))
    if values.ndim != 2 or dims[-1] != "member":
        raise ValueError(f"`loss` must have axes (batch, member), got shape {values.shape}, axes {dims}.")
    kept = values[:, np.isfinite(values).all(axis=0)]
    if kept.size == 0:
        raise ValueError(f"`loss` must be finite in a member, got {values.shape[1]} that are not.")
    if not np.all(kept > 0):
        raise ValueError(f"`loss` must be above zero, got {kept.min()}.")
    return kept
