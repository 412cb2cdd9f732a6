"""Centred kernel alignment: whether two members find the same samples alike."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.samples import paired_samples
from popsim.checks import check_positive


def linear_cka(first: AnyArray, second: AnyArray) -> float:
    """Linear centred kernel alignment, the usual biased estimate.

    |Y'X|^2 / (|X'X| |Y'Y|) with centred X and Y and Frobenius norms (Kornblith, Norouzi, Lee & Hinton 2019,
    ICML, equation 4; cited from memory). From 0 to 1. It does not change when either activity is rotated,
    reflected, moved, or scaled in all units alike; it does under other linear maps. With few samples and
    many units it is too high: see `debiased_linear_cka`.

    **Arguments:**

    - `first`, `second`: activity of two members in the same samples, with axes (sample..., unit).

    **Raises:** `ValueError` if the samples are not the same number, fewer than two, or do not vary.
    """
    x, y = paired_samples(first, second)
    return float(np.sum((y.T @ x) ** 2) / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)))


def debiased_linear_cka(first: AnyArray, second: AnyArray) -> float:
    """Linear centred kernel alignment with unbiased estimates of the three dependences in it.

    Each is the Hilbert-Schmidt independence criterion HSIC_1 of Song, Smola, Gretton, Bedo & Borgwardt
    2012, J Mach Learn Res 13:1393-1434, equation 5; for this use Nguyen, Raghu & Kornblith 2021, ICLR,
    equation 3 (cited from memory). Of centred X and Y with squared lengths a and b of their rows, and n
    samples, it is |Y'X|^2 - n / (n - 2) a.b + sum(a) sum(b) / ((n - 1) (n - 2)), but for a factor that
    cancels. Unrelated members are at 0 on average, however many units they have; it can be negative. Its
    invariances are those of `linear_cka`.

    **Arguments:**

    - `first`, `second`: activity of two members in the same samples, with axes (sample..., unit).

    **Raises:** `ValueError` as `linear_cka`, or if there are fewer than four samples, or the estimate of a
    member with itself is not positive.
    """
    x, y = paired_samples(first, second)
    if len(x) < 4:
        raise ValueError(f"`first` and `second` must have four samples or more, got {len(x)}.")
    own = _unbiased_dependence(x, x) * _unbiased_dependence(y, y)
    if own <= 0:
        raise ValueError(
            "`first` and `second` must have more samples for an unbiased estimate to be positive, "
            f"got {len(x)} of {x.shape[1]} and {y.shape[1]} units."
        )
    return float(_unbiased_dependence(x, y) / own**0.5)


def rbf_cka(first: AnyArray, second: AnyArray, *, bandwidth: float = 0.5) -> float:
    """Centred kernel alignment with Gaussian kernels, the biased estimate: it sees also what is not linear.

    k(x, z) = exp(-|x - z|^2 / (2 (bandwidth m)^2)), where m is the median distance of two samples of the
    member (Kornblith, Norouzi, Lee & Hinton 2019, ICML; cited from memory). From 0 to 1, with the invariances
    of `linear_cka`. Time and memory grow with the square of the number of samples: give it some thousands.

    **Arguments:**

    - `first`, `second`: activity of two members in the same samples, with axes (sample..., unit).
    - `bandwidth`: in median distances.

    **Raises:** `ValueError` as `linear_cka`, or if `bandwidth` is not positive, or half of the samples of a
    member are one and the same.
    """
    check_positive("bandwidth", bandwidth)
    pair = zip(("first", "second"), paired_samples(first, second), strict=True)
    k, other = (_centred_gaussian_kernel(name, samples, bandwidth) for name, samples in pair)
    return float(np.sum(k * other) / (np.linalg.norm(k) * np.linalg.norm(other)))


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
