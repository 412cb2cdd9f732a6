"""A map of a population: members that are alike lie near one another."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray
from popsim.analysis.similarity.pairs import check_distances
from popsim.checks import check_positive_int


class MemberMap(NamedTuple):
    """Where each member lies on a map.

    - `positions` [member, dimension]: in the unit of the distances; the first dimension spreads most.
    - `share`: of all spread of members, as the sum of positive eigenvalues, that is on the map.
    - `eigenvalues` [member]: the largest first. Those below zero tell how far the distances are from those
        of any points in space.
    """

    positions: Float[np.ndarray, "member dimension"]
    share: float
    eigenvalues: Float[np.ndarray, " member"]


def member_map(distances: Float[AnyArray, "member member"], *, n_dimensions: int = 2) -> MemberMap:
    """Classical (metric, Torgerson's) multidimensional scaling; nothing is random.

    Eigenvectors of -J D^2 J / 2, with J = I - 1/n, times the square roots of their eigenvalues (Torgerson
    1952, Psychometrika 17:401-419, cited from memory). Distances of points in space are kept exactly where
    there are dimensions enough. Of each dimension, the member that is farthest out is on the positive side.

    **Arguments:**

    - `distances`: of all pairs of members, see `pairwise`.
    - `n_dimensions`: of the map.

    **Raises:** `ValueError` if these are not distances, all are zero, or there are not more members than
    dimensions.
    """
    check_positive_int("n_dimensions", n_dimensions)
    values = check_distances("distances", distances)
    if len(values) <= n_dimensions or not values.any():
        raise ValueError(
            f"`distances` must be above zero, of more members than {n_dimensions} dimensions, got {values}."
        )
    squares = values**2
    means = squares.mean(axis=0)
    eigenvalues, vectors = np.linalg.eigh(-(squares - means - means[:, None] + means.mean()) / 2)
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    positions = vectors[:, :n_dimensions] * np.sqrt(np.maximum(eigenvalues[:n_dimensions], 0.0))
    farthest = positions[np.abs(positions).argmax(axis=0), np.arange(n_dimensions)]
    share = np.maximum(eigenvalues[:n_dimensions], 0.0).sum() / eigenvalues[eigenvalues > 0].sum()
    return MemberMap(positions * np.where(farthest < 0, -1.0, 1.0), float(share), eigenvalues)
