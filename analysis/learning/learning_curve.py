"""How fast a population learns: its mean course, and how sure that is."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray


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

    - `loss`: of each member, such as `run.history.loss.sum("term").values`; above zero.
    - `confidence`: with which the interval holds the mean, above 0 and below 1.

    **Raises:** `ValueError` if fewer than two members have finite losses, one is not above zero, or
    `confidence` is not above 0 and below 1.
    """
    from scipy.stats import t

    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must be above 0 and below 1, got {confidence}.")
    logarithms = np.log(finite_members(loss))
    n_members = logarithms.shape[1]
    if n_members < 2:
        raise ValueError(f"`loss` must be finite in two members or more, got {n_members}.")
    mean = logarithms.mean(axis=1)
    error = logarithms.std(axis=1, ddof=1) / np.sqrt(n_members)
    reach = t.ppf((1 + confidence) / 2, n_members - 1) * error
    return LearningCurve(np.exp(mean), np.exp(mean - reach), np.exp(mean + reach), n_members)


def finite_members(loss: Float[AnyArray, "batch member"]) -> Float[np.ndarray, "batch finite_member"]:
    """The losses of the members whose losses are finite in all batches.

    **Raises:** `ValueError` if there is none, or a loss of theirs is not above zero.
    """
    values = np.asarray(loss, np.float64)
    kept = values[:, np.isfinite(values).all(axis=0)]
    if kept.size == 0:
        raise ValueError(f"`loss` must be finite in a member, got {values.shape[1]} that are not.")
    if not np.all(kept > 0):
        raise ValueError(f"`loss` must be above zero, got {kept.min()}.")
    return kept


def smoothed(values: Float[AnyArray, "batch member"], n_batches: int) -> Float[np.ndarray, "batch member"]:
    """The mean over the last `n_batches` rows, of each row; over those that there are, at the beginning.

    **Raises:** `ValueError` if `n_batches` is not from one to the number of rows.
    """
    given = np.asarray(values, np.float64)
    if not 1 <= n_batches <= len(given):
        raise ValueError(f"`n_batches` must be from 1 to the {len(given)} rows, got {n_batches}.")
    ends = range(1, len(given) + 1)
    return np.stack([given[max(end - n_batches, 0) : end].mean(axis=0) for end in ends])
