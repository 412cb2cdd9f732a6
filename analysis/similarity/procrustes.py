"""Procrustes: how far the activity of two members is apart after the best rotation."""

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.samples import paired_samples


def procrustes_angle(first: AnyArray, second: AnyArray) -> float:
    """The angle between the shapes of two activities, in rad from 0 to pi / 2; a metric.

    arccos(|X'Y|_* / (|X| |Y|)) of centred X and Y, with the nuclear norm above and Frobenius norms below:
    the smallest angle over all rotations and reflections (Williams, Kunz, Kornblith & Linderman 2021,
    NeurIPS, on generalized shape metrics; cited from memory). It does not change when either is rotated,
    reflected, moved, or scaled in all units alike. `scipy.spatial.procrustes` gives its squared sine. Two
    members may have different numbers of units: missing ones are silent.

    **Arguments:**

    - `first`, `second`: activity of two members in the same samples, with axes (sample..., unit).

    **Raises:** `ValueError` if the samples are not the same number, fewer than two, or do not vary.
    """
    x, y = paired_samples(first, second)
    chord = _left_after_rotation(x / np.linalg.norm(x), y / np.linalg.norm(y))
    return float(2 * np.arcsin(min(chord / 2, 1.0)))


def procrustes_distance(first: AnyArray, second: AnyArray) -> float:
    """How far samples of two members are apart after the best rotation, as root mean square; a metric.

    min over Q of |X - Y Q| / sqrt(n) of n centred samples, in the unit of the activity. It does not change
    when either is rotated, reflected or moved, and it does when one is scaled.

    **Arguments:**

    - `first`, `second`: activity of two members in the same samples, with axes (sample..., unit).

    **Raises:** `ValueError` if the samples are not the same number, fewer than two, or do not vary.
    """
    x, y = paired_samples(first, second)
    return float(_left_after_rotation(x, y) / np.sqrt(len(x)))


def _left_after_rotation(x: Float[np.ndarray, "sample unit"], y: Float[np.ndarray, "sample other"]) -> float:
    """min over Q of |X - Y Q|, by the best Q: the difference of norms would lose half of the digits."""
    n_units = max(x.shape[1], y.shape[1])
    x, y = (np.pad(own, ((0, 0), (0, n_units - own.shape[1]))) for own in (x, y))
    left, _, right = np.linalg.svd(y.T @ x)
    return float(np.linalg.norm(x - y @ (left @ right)))
