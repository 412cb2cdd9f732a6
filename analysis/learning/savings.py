"""Whether what was learned once is learned faster again."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.arrays import AnyArray
from popsim.analysis.learning.exponential_fit import fit_exponential
from popsim.analysis.learning.time_to_criterion import time_to_criterion


class Savings(NamedTuple):
    """How two exposures differ, paired over members.

    - `first`, `second`: what was measured in both, of each member.
    - `difference`: what was saved, of each member; positive where the second exposure is faster.
    - `mean`: of the differences over members.
    - `low`, `high`: the 95 % confidence interval of that mean.
    - `t`, `p_value`: of the paired t-test, two-sided, against no difference; `n_members` - 1 degrees of
        freedom.
    - `n_members`: with a number in both exposures; the others are left out of the statistic.
    """

    first: Float[np.ndarray, " member"]
    second: Float[np.ndarray, " member"]
    difference: Float[np.ndarray, " member"]
    mean: float
    low: float
    high: float
    t: float
    p_value: float
    n_members: int


def savings_in_rate(
    first: Float[AnyArray, "batch member"],
    second: Float[AnyArray, "batch member"],
    batch: Int[AnyArray, " batch"],
) -> Savings:
    """By how much the learning rate 1 / tau of an exponential is higher in a second exposure, per batch.

    The unit of replication is the member; the rate of each is fitted by `fit_exponential`.

    **Arguments:**

    - `first`, `second`: the loss or the error in both exposures, in equally many batches.
    - `batch`: of each row, since the exposure began.

    **Raises:** `ValueError` as `fit_exponential`, or if fewer than two members can be compared.
    """
    rates = [1 / fit_exponential(course, batch).tau for course in (first, second)]
    return _paired(rates[0], rates[1], rates[1] - rates[0])


def savings_in_time(
    first: Float[AnyArray, "batch member"],
    second: Float[AnyArray, "batch member"],
    batch: Int[AnyArray, " batch"],
    criterion: float,
    *,
    smoothed_over: int = 1,
) -> Savings:
    """By how many batches sooner a criterion is reached in a second exposure, see `time_to_criterion`.

    The unit of replication is the member; members that fail the criterion in one exposure are left out.

    **Arguments:**

    - `first`, `second`: the loss or the error in both exposures, in equally many batches.
    - `batch`: of each row, since the exposure began.
    - `criterion`, `smoothed_over`: as for `time_to_criterion`.

    **Raises:** `ValueError` as `time_to_criterion`, or if fewer than two members can be compared.
    """
    times = [
        time_to_criterion(course, batch, criterion, smoothed_over=smoothed_over) for course in (first, second)
    ]
    return _paired(times[0], times[1], times[0] - times[1])


def _paired(first: np.ndarray, second: np.ndarray, difference: np.ndarray) -> Savings:
    from scipy.stats import ttest_1samp

    known = difference[np.isfinite(difference)]
    if known.size < 2:
        raise ValueError(
            f"`first` and `second` must be comparable in two members or more, got {known.size} that are."
        )
    if np.ptp(known) == 0:
        mean, certain = float(known[0]), float(known[0] == 0)
        t = 0.0 if mean == 0 else float(np.copysign(np.inf, mean))
        return Savings(first, second, difference, mean, mean, mean, t, certain, known.size)
    test = ttest_1samp(known, 0.0)
    low, high = test.confidence_interval(0.95)
    statistic = (float(low), float(high), float(test.statistic), float(test.pvalue))
    return Savings(first, second, difference, float(known.mean()), *statistic, known.size)
