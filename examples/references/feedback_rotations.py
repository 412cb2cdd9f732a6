"""How much of the change of a state is a rotation. Numpy alone, without popsim.

States x(t) of several trials, at equal steps, are reduced to their first principal components. Their changes
are fitted by dx = M x, once with any M, and once with M = -M'. The share of the skew-symmetric part is the
quotient of the two coefficients of determination (Churchland et al. 2012, Nature 487:51-56, as used by
Kalidindi et al. 2021, eLife 10:e67256). x is taken at the middle of each step.

The skew-symmetric fit is made here by linear regression on a basis of skew-symmetric matrices, one for each
pair of components. Tests compare it with planted rotations.
"""

import itertools

import numpy as np


def prepare(values: np.ndarray, constant: float) -> np.ndarray:
    """Signals [trial, time, signal], each by its range plus a constant, without the mean over trials."""
    scaled = values / (np.ptp(values, axis=(0, 1)) + constant)
    return scaled - scaled.mean(axis=0)


def rotation_fit(values: np.ndarray, n_components: int) -> tuple[float, float]:
    """The coefficients of determination of changes by a skew-symmetric M, and by any M."""
    centered = values - values.mean(axis=(0, 1))
    _, _, axes = np.linalg.svd(centered.reshape(-1, values.shape[2]), full_matrices=False)
    states = centered @ axes[:n_components].T
    middle = ((states[:, 1:] + states[:, :-1]) / 2).reshape(-1, n_components)
    change = np.diff(states, axis=1).reshape(-1, n_components)
    pairs = list(itertools.combinations(range(n_components), 2))
    columns = []
    for i, j in pairs:  # what a rotation from component i to component j changes
        turned = np.zeros_like(middle)
        turned[:, j], turned[:, i] = middle[:, i], -middle[:, j]
        columns.append(turned.ravel())
    design = np.stack(columns, axis=1)
    speeds, *_ = np.linalg.lstsq(design, change.ravel(), rcond=None)
    free, *_ = np.linalg.lstsq(middle, change, rcond=None)
    total = np.sum(change**2)
    skew = 1 - np.sum((change.ravel() - design @ speeds) ** 2) / total
    return float(skew), float(1 - np.sum((change - middle @ free) ** 2) / total)
