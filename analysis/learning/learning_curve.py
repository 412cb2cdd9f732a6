"""How fast a population learns: its mean course, and how sure that is."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.learning.finite_members import finite_members
from popsim.analysis.statistics.interval import mean_interval


class LearningCurve(NamedTuple):
    """The geometric mean over members of a loss, and where that of further members would be.

    - `mean`: exp of the mean of ln loss over members, in the unit of the loss.
    - `low`, `high`: the bounds of its confidence interval.
    - `n_members`: of how many members; those whose loss is not finite at some batch are left out.
    """

    mean: Float[np.ndarray, " batch"]
    low: Float[np.ndarray, " batch"]
    high: Float[np.ndarray, " batch"]
    n_members: int


def learning_curve(loss: Float[AnyArray, "batch member"], *, confidence: float = 0.95) -> LearningCurve:
    """The mean learning curve of a population with its confidence interval, batch by batch.

    The unit of replication is the member: with m and s the mean and the standard deviation of ln loss over
    n members, the interval is exp(m -+ t s / sqrt(n)), t that quantile of Student's distribution with n - 1
    degrees of freedom. It holds for one batch at a time, not for the whole curve.

    **Arguments:**

    - `loss`: of each member, such as `run.history.total_loss.values`; above zero.
    - `confidence`: with which the interval holds the mean, above 0 and below 1.

    **Raises:** `ValueError` if fewer than two members have finite losses, one is not above zero, or
    `confidence` is not above 0 and below 1.
    """
    logarithms = np.log(finite_members(loss))
    if (n_members := logarithms.shape[1]) < 2:
        raise ValueError(f"`loss` must be finite in two members or more, got {n_members}.")
    mean, low, high = mean_interval(logarithms.T, confidence=confidence)
    return LearningCurve(np.exp(mean), np.exp(low), np.exp(high), n_members)


def smoothed(values: Float[AnyArray, "batch member"], n_rows: int) -> Float[np.ndarray, "batch member"]:
    """The mean of each row and those before it, `n_rows` together; of those that there are, at the beginning.

    Rows are batches only where every batch was kept.

    **Raises:** `ValueError` if `n_rows` is not from one to the number of rows.
    """
    given = np.asarray(values, np.float64)
    if not 1 <= n_rows <= len(given):
        raise ValueError(f"`n_rows` must be from 1 to the {len(given)} rows, got {n_rows}.")
    ends = range(1, len(given) + 1)
    return np.stack([given[max(end - n_rows, 0) : end].mean(axis=0) for end in ends])
