"""How many dimensions the activity of a population takes up."""

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.arrays import AnyArray
from popsim.analysis.population.principal_components import principal_components


def participation_ratio(
    activity: Float[AnyArray, "member trial time unit"],
) -> Float[np.ndarray, " member"]:
    """The dimension of the activity, (sum of v)^2 / (sum of v^2) over the variances v along its components.

    From 1, all along one line, to the number of units, all variances alike. After Gao, Trautmann, Yu,
    Santhanam, Ryu, Shenoy & Ganguli 2017, bioRxiv 214262 (the equation is cited from memory). With few
    samples it is too small. NaN where nothing varies.

    **Arguments:**

    - `activity`: of the units; trials and times are the samples.

    **Raises:** `ValueError` if the activity has other axes or is not finite.
    """
    explained = principal_components(activity).explained
    return 1 / np.sum(explained**2, axis=1)


def n_components_for(
    activity: Float[AnyArray, "member trial time unit"], share: float
) -> Int[np.ndarray, " member"]:
    """How many principal components together explain at least a share of the variance.

    **Arguments:**

    - `activity`: of the units; trials and times are the samples.
    - `share`: of the variance, above 0 and below 1.

    **Raises:** `ValueError` if `share` is not, the activity has other axes or is not finite, or a member's
        activity never changes.
    """
    if not 0 < share < 1:
        raise ValueError(f"`share` must be above 0 and below 1, got {share}.")
    explained = principal_components(activity).explained
    if n_still := int(np.count_nonzero(np.isnan(explained[:, 0]))):
        raise ValueError(f"`activity` must vary in every member, got {n_still} in which it does not.")
    return 1 + np.sum(np.cumsum(explained, axis=1) < share - 1e-12, axis=1)
