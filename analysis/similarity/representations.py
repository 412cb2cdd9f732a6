"""Similarity of representations."""

from typing import Literal

import numpy as np
from jaxtyping import Float

from popsim.analysis import _arrays
from popsim.analysis._arrays import AnyArray, Labels

__all__ = [
    "canonical_correlations",
    "cca_distance",
    "svcca_distance",
    "principal_patterns",
    "procrustes_angle",
    "procrustes_distance",
    "linear_cka",
    "debiased_linear_cka",
    "rbf_cka",
    "representational_dissimilarities",
    "compare_dissimilarities",
]


def canonical_correlations(
    first: AnyArray, second: AnyArray, *, share_of_variance: float = 1.0
) -> Float[np.ndarray, " pattern"]:
    """Return the canonical correlations of two members, in decreasing order, from 0 to 1.

    Each is the correlation of two patterns, one per member. A pattern is a weighted sum of the units of a
    member, uncorrelated with its other patterns (Hotelling 1936, Biometrika 28:321-377). Their number is the
    lower dimension of the two. They are invariant to invertible linear maps of either activity, unless
    dimensions of low variance are dropped.

    **Arguments:**

    - `share_of_variance`: share kept of each member, above 0 and at most 1, by the fewest principal
        components that reach it; 1 keeps all above single-precision rounding, 1e-12 of the sum of squares.
    """
    _check_share(share_of_variance)
    x, y = (
        _principal_patterns(samples, share_of_variance, _arrays.least_singular_value(activity))
        for samples, activity in zip(_arrays.paired_samples(first, second), (first, second), strict=True)
    )
    if x.shape[1] + y.shape[1] >= len(x):
        raise ValueError(
            f"`first` and `second` must have more samples than the {x.shape[1]} and {y.shape[1]} dimensions "
            f"that are compared, got {len(x)}."
        )
    return np.clip(np.linalg.svd(x.T @ y, compute_uv=False), 0.0, 1.0)


def cca_distance(first: AnyArray, second: AnyArray) -> float:
    """Return one minus the mean canonical correlation of all dimensions of two members, from 0 to 1.

    All dimensions above rounding have the same weight, regardless of their variance: see `svcca_distance`.

    **Arguments:** as for `canonical_correlations`.
    """
    return svcca_distance(first, second, share_of_variance=1.0)


def svcca_distance(first: AnyArray, second: AnyArray, *, share_of_variance: float = 0.99) -> float:
    """Return one minus the mean canonical correlation of the principal components of two members.

    Singular vector canonical correlation analysis (Raghu, Gilmer, Yosinski & Sohl-Dickstein 2017, NeurIPS),
    as a distance from 0 to 1 as in Maheswaranathan, Williams, Golub, Ganguli & Sussillo 2019, NeurIPS
    32:15629-15641. It is invariant to rotation, reflection, translation and isotropic scaling of either
    activity. For many members, `pairwise([principal_patterns(member) for member in members], cca_distance)`
    gives the same numbers faster.

    **Arguments:**

    - `share_of_variance`: share of each member's variance that its principal components must reach.
    """
    correlations = canonical_correlations(first, second, share_of_variance=share_of_variance)
    return float(1 - correlations.mean())


def principal_patterns(
    activity: AnyArray, *, share_of_variance: float = 0.99
) -> Float[np.ndarray, "sample pattern"]:
    """Return the time courses of the fewest principal components that reach a share of the variance.

    **Returns:** centred, orthonormal time courses by decreasing variance, the sum of whose cubes is positive.
    """
    _check_share(share_of_variance)
    centred = _arrays.centred_samples("activity", activity)
    return _principal_patterns(centred, share_of_variance, _arrays.least_singular_value(activity))


def _check_share(share_of_variance: float) -> None:
    if not 0 < share_of_variance <= 1:
        raise ValueError(f"`share_of_variance` must be above 0 and at most 1, got {share_of_variance}.")


def _principal_patterns(
    centred: Float[np.ndarray, "sample unit"], share_of_variance: float, least: float
) -> Float[np.ndarray, "sample pattern"]:
    orthonormal, triangular = np.linalg.qr(centred)
    rotation, singular, _ = np.linalg.svd(triangular)
    n_varied = max(1, int(np.count_nonzero(singular > least)))
    explained = np.cumsum(singular**2) / np.sum(singular**2)
    n_kept = int(np.searchsorted(explained, share_of_variance * (1 - 1e-12))) + 1
    if share_of_variance == 1:
        n_kept = n_varied
    patterns = orthonormal @ rotation[:, : min(n_kept, n_varied)]
    return patterns * _arrays.sign_factors(patterns, axis=0)


def procrustes_angle(first: AnyArray, second: AnyArray) -> float:
    """Return the angle between the shapes of two activities, in rad from 0 to pi / 2; a metric.

    arccos(|X'Y|_* / (|X| |Y|)) of centred X and Y, with the nuclear norm above and Frobenius norms below:
    the smallest angle over all rotations and reflections (Williams, Kunz, Kornblith & Linderman 2021,
    NeurIPS, arXiv 2110.14739), also invariant to translation and isotropic scaling of either activity. The
    member with fewer units is padded with silent ones.
    """
    x, y = _arrays.paired_samples(first, second)
    chord = _left_after_rotation(x / np.linalg.norm(x), y / np.linalg.norm(y))
    return float(2 * np.arcsin(min(chord / 2, 1.0)))


def procrustes_distance(first: AnyArray, second: AnyArray) -> float:
    """Return the root-mean-square distance of two members' samples after the best rotation; a metric.

    min over Q of |X - Y Q| / sqrt(n) of n centred samples, in the unit of the activity. It is invariant to
    rotation, reflection and translation of either activity, not to scaling.

    **Arguments:** as for `procrustes_angle`.
    """
    x, y = _arrays.paired_samples(first, second)
    return float(_left_after_rotation(x, y) / np.sqrt(len(x)))


def _left_after_rotation(x: Float[np.ndarray, "sample unit"], y: Float[np.ndarray, "sample other"]) -> float:
    # Computed from the best Q, as the difference of norms would lose half of the digits.
    n_units = max(x.shape[1], y.shape[1])
    x, y = (np.pad(samples, ((0, 0), (0, n_units - samples.shape[1]))) for samples in (x, y))
    u, _, vt = np.linalg.svd(y.T @ x)
    return float(np.linalg.norm(x - y @ (u @ vt)))


def linear_cka(first: AnyArray, second: AnyArray) -> float:
    """Return the linear centred kernel alignment, the usual biased estimate.

    |Y'X|^2 / (|X'X| |Y'Y|) with centred X and Y and Frobenius norms, from 0 to 1 (Kornblith, Norouzi, Lee &
    Hinton 2019, ICML; as in `feature_space_linear_cka` of the authors' demo). It is invariant to rotation,
    reflection, translation and isotropic scaling of either activity, not to other linear maps. With few
    samples and many units it is too high: see `debiased_linear_cka`.

    **Arguments:** as for `procrustes_angle`.
    """
    x, y = _arrays.paired_samples(first, second)
    return float(np.sum((y.T @ x) ** 2) / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)))


def debiased_linear_cka(first: AnyArray, second: AnyArray) -> float:
    """Return the linear centred kernel alignment with unbiased estimates of its three dependences.

    Each is the Hilbert-Schmidt independence criterion HSIC_1 of Song, Smola, Gretton, Bedo & Borgwardt 2012,
    J Mach Learn Res 13:1393-1434, used for this by Nguyen, Raghu & Kornblith 2021, ICLR. For centred X and Y
    with squared row lengths a and b, and n samples, it is, up to a factor that cancels,
    |Y'X|^2 - n / (n - 2) a.b + sum(a) sum(b) / ((n - 1) (n - 2)), as in the demo of Kornblith et al. 2019.
    The expectation is 0 for unrelated members, so values can be negative. NaN where the estimate of a
    member's own dependence is negative. The invariances are those of `linear_cka`.

    **Arguments:** as for `procrustes_angle`.
    """
    x, y = _arrays.paired_samples(first, second)
    if len(x) < 4:
        raise ValueError(f"`first` and `second` must have four samples or more, got {len(x)}.")
    product = _unbiased_dependence(x, x) * _unbiased_dependence(y, y)
    return float(_unbiased_dependence(x, y) / product**0.5) if product > 0 else float("nan")


def rbf_cka(first: AnyArray, second: AnyArray, *, bandwidth: float = 0.5) -> float:
    """Return the biased centred kernel alignment with Gaussian kernels, which detects nonlinear relations.

    k(x, z) = exp(-|x - z|^2 / (2 (bandwidth m)^2)), with m the median distance of two samples of the member
    (Kornblith, Norouzi, Lee & Hinton 2019, ICML; as in `gram_rbf` of the authors' demo, whose median also
    counts the distance of each sample to itself). From 0 to 1, with the invariances of `linear_cka`. Time and
    memory are quadratic in the number of samples: give a few thousand.

    **Arguments:**

    - `bandwidth`: in median distances.
    """
    pair = zip(("first", "second"), _arrays.paired_samples(first, second), strict=True)
    k, m = (_centred_gaussian_kernel(name, samples, bandwidth) for name, samples in pair)
    return float(np.sum(k * m) / (np.linalg.norm(k) * np.linalg.norm(m)))


def _unbiased_dependence(x: Float[np.ndarray, "sample unit"], y: Float[np.ndarray, "sample other"]) -> float:
    n = len(x)
    a, b = np.sum(x**2, axis=1), np.sum(y**2, axis=1)
    corrected = np.sum((y.T @ x) ** 2) - n / (n - 2) * (a @ b)
    return float(corrected + a.sum() * b.sum() / ((n - 1) * (n - 2)))


def _centred_gaussian_kernel(
    name: str, samples: Float[np.ndarray, "sample unit"], bandwidth: float
) -> Float[np.ndarray, "sample sample"]:
    from scipy.spatial.distance import pdist, squareform

    distances = pdist(samples)
    if (median := float(np.median(distances))) == 0:
        raise ValueError(f"`{name}` must have samples that differ, got a median distance of 0.")
    kernel = np.exp(-(squareform(distances) ** 2) / (2 * (bandwidth * median) ** 2))
    means = kernel.mean(axis=0)
    return kernel - means - means[:, None] + means.mean()


def representational_dissimilarities(
    activity: AnyArray, condition: Labels, *, method: Literal["euclidean", "correlation"] = "euclidean"
) -> Float[np.ndarray, "*axes condition condition"]:
    """Return the dissimilarity of responses for all pairs of conditions, by `rsatoolbox.rdm.calc_rdm`.

    Kriegeskorte, Mur & Bandettini 2008, Front Syst Neurosci 2:4. The trials of a condition are averaged
    first; remaining noise increases all dissimilarities.

    **Arguments:**

    - `activity`: with axes (*axes, trial, unit), such as the mean over a window of each member; to compare
        time courses, give time steps times units as units.
    - `condition`: label of each trial; numbers that differ only by rounding are one label.
    - `method`: "euclidean", the squared distance divided by the number of units, in squared units of the
        activity, or "correlation", one minus the correlation over units.

    **Returns:** a symmetric matrix with zeros on the diagonal; conditions are in sorted order.
    """
    _arrays.check_choice("method", method, ("euclidean", "correlation"))
    values, labels = _arrays.finite_float64("activity", activity, "... trial unit"), np.asarray(condition)
    _arrays.check_axes("condition", labels, f"trial={values.shape[-2]}")
    conditions, places = _arrays.unique_labels(labels)
    means = np.stack(
        [values[..., places == place, :].mean(axis=-2) for place in range(len(conditions))], axis=-2
    )
    if method == "correlation" and np.any(np.ptp(means, axis=-1) <= 1e-12 * np.abs(means).max(axis=-1)):
        raise ValueError(
            "`activity` must differ over units in each condition, or it has no correlation: take "
            'method="euclidean".'
        )
    dataset, rdm = (_arrays.import_optional(f"rsatoolbox.{name}") for name in ("data", "rdm"))
    matrices = [
        rdm.calc_rdm(dataset.Dataset(responses), method=method).get_matrices()[0]
        for responses in means.reshape(-1, *means.shape[-2:])
    ]
    return np.reshape(matrices, (*means.shape[:-2], len(conditions), len(conditions)))


def compare_dissimilarities(
    first: Float[AnyArray, "condition condition"],
    second: Float[AnyArray, "condition condition"],
    *,
    method: Literal["corr", "cosine", "spearman", "rho-a", "tau-a"] = "corr",
) -> float:
    """Return the similarity of two dissimilarity matrices, by `rsatoolbox.rdm.compare`; 1 for the same.

    A measure for `pairwise`, with members given as `representational_dissimilarities`.

    **Arguments:**

    - `first`, `second`: dissimilarities of the same conditions; only the upper triangle is used.
    - `method`: the correlation ("corr"), the cosine, or a rank correlation ("rho-a" and "tau-a" are expected
        values under random tie-breaking).
    """
    _arrays.check_choice("method", method, ("corr", "cosine", "spearman", "rho-a", "tau-a"))
    rdm = _arrays.import_optional("rsatoolbox.rdm")
    matrices = []
    for name, matrix in (("first", first), ("second", second)):
        values = _arrays.symmetric_matrix(name, matrix)
        above = values[np.triu_indices(len(values), 1)]
        if above.size < 3 or (np.all(above == 0) if method == "cosine" else np.ptp(above) == 0):
            raise ValueError(
                f"`{name}` must be dissimilarities of three conditions or more that differ, got {values}."
            )
        matrices.append(rdm.RDMs(above[None]))
    return float(np.squeeze(rdm.compare(*matrices, method=method)))
