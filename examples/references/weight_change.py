"""How many dimensions a matrix has, without a singular value decomposition, and by chance.

Numpy alone; popsim is not used. With D an M x N matrix and s its singular values

    participation ratio  (sum s²)² / sum s⁴ = (tr D'D)² / tr (D'D)²

For independent Gaussian entries of one variance E (tr D'D)² = M N (M N + 2) and
E tr (D'D)² = M N (M + N + 1); for large matrices their ratio is M N / (M + N).
"""

import numpy as np


def participation_ratio(changes: np.ndarray) -> np.ndarray:
    """(tr D'D)² / tr (D'D)² of matrices [..., M, N]."""
    product = np.swapaxes(changes, -1, -2) @ changes
    return np.trace(product, axis1=-2, axis2=-1) ** 2 / np.sum(product**2, axis=(-2, -1))


def gaussian_participation_ratio(shape: tuple[int, int], n_draws: int = 2000, seed: int = 0) -> float:
    """Its mean over drawn Gaussian matrices M x N."""
    matrices = np.random.default_rng(seed).standard_normal((n_draws, *shape))
    return float(participation_ratio(matrices).mean())


def strongest_directions(changes: np.ndarray, rank: int) -> np.ndarray:
    """Matrices [..., M, N] projected on the `rank` eigenvectors of D'D with the largest eigenvalues."""
    _, vectors = np.linalg.eigh(np.swapaxes(changes, -1, -2) @ changes)  # in ascending order
    directions = vectors[..., vectors.shape[-1] - rank :]
    return changes @ directions @ np.swapaxes(directions, -1, -2)
