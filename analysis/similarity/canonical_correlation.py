"""Canonical correlations: which patterns of activity two members share, up to linear maps."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.samples import centred_samples, least_singular_value, paired_samples


def canonical_correlations(
    first: AnyArray, second: AnyArray, *, share_of_variance: float = 1.0
) -> Float[np.ndarray, " pattern"]:
    """The correlations of pairs of patterns, one of each member, the most alike first; from 0 to 1.

    A pattern is a weighted sum of the units of a member; it is not correlated with the others of that
    member (Hotelling 1936, Biometrika 28:321-377, cited from memory). There are as many as the member with
    fewer dimensions has. They do not change under invertible linear maps of either activity, unless
    dimensions with little variance are left out, before or after the map.

    **Arguments:**

    - `first`, `second`: activity of two members in the same samples, with axes (sample..., unit).
    - `share_of_variance`: of each member that is kept, above 0 and at most 1: the fewest principal
        components that reach it. With 1, all dimensions are kept in which there is more activity than the
        rounding of single precision, 1e-12 of the sum of squares.

    **Raises:** `ValueError` if the samples are not the same number, fewer than two, or do not vary, or
    `share_of_variance` is not a share; or if there are no more samples than dimensions, which correlate
    perfectly whatever they are.
    """
    _check_share(share_of_variance)
    x, y = (
        _principal_patterns(samples, share_of_variance, least_singular_value(activity))
        for samples, activity in zip(paired_samples(first, second), (first, second), strict=True)
    )
    if x.shape[1] + y.shape[1] >= len(x):
        raise ValueError(
            f"`first` and `second` must have more samples than the {x.shape[1]} and {y.shape[1]} dimensions "
            f"that are compared, got {len(x)}."
        )
    return np.clip(np.linalg.svd(x.T @ y, compute_uv=False), 0.0, 1.0)


def cca_distance(first: AnyArray, second: AnyArray) -> float:
    """One minus the mean canonical correlation of all dimensions of two members; from 0 to 1.

    It does not change under invertible linear maps of either activity, as long as these leave all dimensions
    with more than rounding (see `canonical_correlations`). Dimensions count alike, however little they vary:
    see `svcca_distance`.

    **Arguments:**

    - `first`, `second`: activity of two members in the same samples, with axes (sample..., unit).

    **Raises:** `ValueError` as `canonical_correlations`.
    """
    return svcca_distance(first, second, share_of_variance=1.0)


def svcca_distance(first: AnyArray, second: AnyArray, *, share_of_variance: float = 0.99) -> float:
    """One minus the mean canonical correlation of the principal components of two members; from 0 to 1.

    Singular vector canonical correlation analysis (Raghu, Gilmer, Yosinski & Sohl-Dickstein 2017, NeurIPS,
    with 99 % of the variance; cited from memory), as a distance as in Maheswaranathan, Williams, Golub,
    Ganguli & Sussillo 2019, NeurIPS 32:15629-15641. It does not change when either activity is rotated,
    reflected, moved, or scaled in all units alike. For all pairs of many members it is faster to take
    `pairwise(kept, cca_distance)` of `kept = [principal_patterns(member) for member in members]`: the same
    numbers.

    **Arguments:**

    - `first`, `second`: activity of two members in the same samples, with axes (sample..., unit).
    - `share_of_variance`: of each member that its principal components have to reach.

    **Raises:** `ValueError` as `canonical_correlations`.
    """
    kept = canonical_correlations(first, second, share_of_variance=share_of_variance)
    return float(1 - kept.mean())


def principal_patterns(
    activity: AnyArray, *, share_of_variance: float = 0.99
) -> Float[np.ndarray, "sample pattern"]:
    """The time courses of the fewest principal components that reach a share of the variance.

    **Arguments:**

    - `activity`: of a member, with axes (sample..., unit).
    - `share_of_variance`: above 0 and at most 1.

    **Returns:** centred, orthogonal, of length one each, the component with the most variance first.

    **Raises:** `ValueError` if there are no two samples, they do not vary, or `share_of_variance` is not a
    share.
    """
    _check_share(share_of_variance)
    centred = centred_samples("activity", activity)
    return _principal_patterns(centred, share_of_variance, least_singular_value(activity))


def _check_share(share_of_variance: float) -> None:
    if not 0 < share_of_variance <= 1:
        raise ValueError(f"`share_of_variance` must be above 0 and at most 1, got {share_of_variance}.")


def _principal_patterns(
    centred: Float[np.ndarray, "sample unit"], share_of_variance: float, least: float
) -> Float[np.ndarray, "sample pattern"]:
    """The time courses of principal components, of length one."""
    orthonormal, triangular = np.linalg.qr(centred)
    rotation, singular, _ = np.linalg.svd(triangular)
    n_varied = max(1, int(np.count_nonzero(singular > least)))
    explained = np.cumsum(singular**2) / np.sum(singular**2)
    n_kept = int(np.searchsorted(explained, share_of_variance * (1 - 1e-12))) + 1
    if share_of_variance == 1:
        n_kept = n_varied
    return orthonormal @ rotation[:, : min(n_kept, n_varied)]
