"""Whether what was learned once is learned faster again."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Key

from popsim.analysis.arrays import AnyArray
from popsim.analysis.learning.exponential_fit import fit_exponential
from popsim.analysis.learning.time_to_criterion import time_to_criterion
from popsim.analysis.statistics.paired import PairedComparison, paired_comparison


class Savings(NamedTuple):
    """How two exposures differ, paired over members.

    - `first`, `second`: what was measured in both, of each member.
    - `saved`: by how much the second exposure is faster, of each member; negative where it is slower.
    - `n_members`: with a number in both exposures; the others are left out of the comparison.
    - `comparison`: the mean over members of what was saved, its interval and its test, see
        `popsim.analysis.statistics.paired_comparison`.
    """

    first: Float[np.ndarray, " member"]
    second: Float[np.ndarray, " member"]
    saved: Float[np.ndarray, " member"]
    n_members: int
    comparison: PairedComparison


def savings_in_rate(
    first: Float[AnyArray, "batch member"],
    second: Float[AnyArray, "batch member"],
    batch: Int[AnyArray, " batch"],
    *,
    confidence: float = 0.95,
    key: Key[jax.Array, ""],
) -> Savings:
    """By how much the learning rate 1 / tau of an exponential is higher in a second exposure, per batch.

    The unit of replication is the member; the rate of each is fitted by `fit_exponential`. Members that have
    no tau in one exposure are left out.

    **Arguments:**

    - `first`, `second`: the loss or the error in both exposures, in equally many batches.
    - `batch`: of each row, since the exposure began.
    - `confidence`, `key`: as for `paired_comparison`.

    **Raises:** `ValueError` as `fit_exponential` and `paired_comparison`, or if fewer than two members can be
    compared.
    """
    rates = [1 / fit_exponential(course, batch).tau for course in (first, second)]
    return _compared(rates[0], rates[1], rates[1] - rates[0], confidence=confidence, key=key)


def savings_in_time(
    first: Float[AnyArray, "batch member"],
    second: Float[AnyArray, "batch member"],
    batch: Int[AnyArray, " batch"],
    criterion: float,
    *,
    smoothed_over: int = 1,
    confidence: float = 0.95,
    key: Key[jax.Array, ""],
) -> Savings:
    """By how many batches sooner a criterion is reached in a second exposure, see `time_to_criterion`.

    The unit of replication is the member; members that fail the criterion in one exposure are left out.

    **Arguments:**

    - `first`, `second`: the loss or the error in both exposures, in equally many batches.
    - `batch`: of each row, since the exposure began.
    - `criterion`, `smoothed_over`: as for `time_to_criterion`.
    - `confidence`, `key`: as for `paired_comparison`.

    **Raises:** `ValueError` as `time_to_criterion` and `paired_comparison`, or if fewer than two members can
    be compared.
    """
    times = [
        time_to_criterion(course, batch, criterion, smoothed_over=smoothed_over) for course in (first, second)
    ]
    return _compared(times[0], times[1], times[0] - times[1], confidence=confidence, key=key)


def _compared(
    first: np.ndarray, second: np.ndarray, saved: np.ndarray, *, confidence: float, key: Key[jax.Array, ""]
) -> Savings:
    known = saved[np.isfinite(saved)]
    if known.size < 2:
        raise ValueError(
            f"`first` and `second` must be comparable in two members or more, got {known.size} that are."
        )
    comparison = paired_comparison(np.zeros(known.size), known, confidence=confidence, key=key)
    return Savings(first, second, saved, known.size, comparison)
