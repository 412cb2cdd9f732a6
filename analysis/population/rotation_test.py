"""Whether a population rotates more than its smoothness and correlations make it."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Key

from popsim.analysis.arrays import AnyArray, numpy_generator
from popsim.analysis.population.activity import population_activity
from popsim.analysis.population.maximum_entropy import maximum_entropy_activity
from popsim.analysis.population.rotations import rotations
from popsim.checks import check_positive_int


class RotationTest(NamedTuple):
    """How well rotations describe each member's activity, and random activity with the same covariances.

    - `r2_skew`, `r2_full`: of the activity, see `Rotations`.
    - `random_r2_skew`, `random_r2_full`: of each set of random activity.
    - `p_skew`, `p_full`: the share of random sets, the data counted as one of them, with at least the
        r2 of the data.
    - `p_ratio`: the same for r2_skew / r2_full.
    """

    r2_skew: Float[np.ndarray, " member"]
    r2_full: Float[np.ndarray, " member"]
    random_r2_skew: Float[np.ndarray, "draw member"]
    random_r2_full: Float[np.ndarray, "draw member"]
    p_skew: Float[np.ndarray, " member"]
    p_full: Float[np.ndarray, " member"]
    p_ratio: Float[np.ndarray, " member"]


def rotation_test(
    activity: Float[AnyArray, "member trial time unit"],
    *,
    dt: float,
    n_components: int = 6,
    n_draws: int = 200,
    key: Key[jax.Array, ""],
) -> RotationTest:
    """`rotations` of the activity against those of random activity with its covariances.

    The random activity keeps the means and covariances over times, units and trials, and nothing else: tensor
    maximum entropy, Elsayed & Cunningham 2017, Nat Neurosci 20:1310. (Another control is the
    covariance-matched permutation test of Michaels, Dann & Scherberger 2016, PLoS Comput Biol 12:e1005175:
    conditions are reassigned for each unit so that the covariance of the units stays. Its statistic is the
    ratio of the two r2, for which `p_ratio` stands.) Each member is tested by itself: a p value says that one
    network rotates; for a statement about networks, members are the unit of replication.

    **Arguments:**

    - `activity`, `dt`, `n_components`: as for `rotations`; conditions are trials.
    - `n_draws`: of random activity; the smallest p value is 1 / (n_draws + 1).
    - `key`: of the draws.

    **Raises:** `ValueError` as `rotations`, or if `n_draws` is not positive.
    """
    check_positive_int("n_draws", n_draws)
    values = population_activity("activity", activity)
    found = rotations(values, dt=dt, n_components=n_components)
    distribution, generator = maximum_entropy_activity(values), numpy_generator(key)
    skew, full = np.empty((2, n_draws, values.shape[0]))
    for draw in range(n_draws):
        random = rotations(distribution.draw(generator), dt=dt, n_components=n_components)
        skew[draw], full[draw] = random.r2_skew, random.r2_full
    return RotationTest(
        r2_skew=found.r2_skew,
        r2_full=found.r2_full,
        random_r2_skew=skew,
        random_r2_full=full,
        p_skew=_share_as_high(found.r2_skew, skew),
        p_full=_share_as_high(found.r2_full, full),
        p_ratio=_share_as_high(found.r2_skew / found.r2_full, skew / full),
    )


def _share_as_high(
    observed: Float[np.ndarray, " member"], random: Float[np.ndarray, "draw member"]
) -> Float[np.ndarray, " member"]:
    return (1 + np.sum(random >= observed, axis=0)) / (1 + len(random))
