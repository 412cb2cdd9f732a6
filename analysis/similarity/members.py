"""Distances between members: maps, clusters and groups."""

import math
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from itertools import combinations_with_replacement, permutations
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Key, Shaped

from popsim._shared.checks import check_positive_int
from popsim.analysis import _arrays
from popsim.analysis._arrays import AnyArray, Distances
from popsim.analysis.statistics.intervals import PermutationTest, permutation_test_result

__all__ = [
    "pairwise",
    "matrix_permutation_test",
    "MemberClusters",
    "cluster_members",
    "MemberMap",
    "member_map",
    "group_separation",
    "group_permutation_test",
]


N_BLOCKS = 16  # on each side of a matrix that is computed in blocks


def pairwise(
    members: Sequence[AnyArray] | AnyArray,
    measure: Callable[[np.ndarray, np.ndarray], float],
    *,
    executor: Executor | None = None,
) -> Float[np.ndarray, "member member"]:
    """Compute a measure for all pairs of members, including each member with itself.

    The measure is assumed to be symmetric and is computed once per pair.

    **Arguments:**

    - `members`: activity of each member in the same trials, with axes (sample..., unit): an array with the
        members first, or a list, such as `[*gated, *tanh]`, with possibly different numbers of units.
    - `measure`: of two arrays, such as `svcca_distance`, or `lambda x, y: 1 - linear_cka(x, y)`.
    - `executor`: computes blocks of the matrix in parallel, such as `client.get_executor()` of a Dask
        cluster, or a `ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))` with a measure
        that is importable; None for one after the other in this process.
    """
    if isinstance(executor, ProcessPoolExecutor):
        _check_processes(executor)
    values = [_arrays.finite_float64("members", member) for member in members]
    matrix = np.empty((len(values), len(values)))
    ends = np.linspace(0, len(values), min(N_BLOCKS, len(values)) + 1).astype(int).tolist()
    parts = [slice(first, end) for first, end in zip(ends[:-1], ends[1:], strict=True)]
    blocks = list(combinations_with_replacement(parts, 2))
    rows, columns = ([values[part] for part in side] for side in zip(*blocks, strict=True))
    compute = map if executor is None else executor.map
    results = compute(_block, rows, columns, [row == column for row, column in blocks], [measure] * len(rows))
    for (row, column), block in zip(blocks, results, strict=True):
        matrix[row, column], matrix[column, row] = block, block.T
    return matrix


def _check_processes(executor: ProcessPoolExecutor) -> None:
    # The context is no public attribute; without one, the executor takes that of the machine.
    context = getattr(executor, "_mp_context", None) or multiprocessing.get_context()
    if context.get_start_method() == "fork":
        raise ValueError(
            "`executor` must not fork this process, which runs threads of JAX whose locks a fork never gets "
            "back, got a ProcessPoolExecutor that does: give it "
            'mp_context=multiprocessing.get_context("spawn").'
        )


def _block(
    rows: Sequence[np.ndarray],
    columns: Sequence[np.ndarray],
    are_same: bool,
    measure: Callable[[np.ndarray, np.ndarray], float],
) -> Float[np.ndarray, "row column"]:
    block = np.empty((len(rows), len(columns)))
    for first, member in enumerate(rows):
        for second in range(first if are_same else 0, len(columns)):
            block[first, second] = measure(member, columns[second])
            if are_same:
                block[second, first] = block[first, second]
    return block


def check_distances(name: str, distances: Distances) -> Float[np.ndarray, "member member"]:
    """Return distances in float64, after removing asymmetries and diagonals below 1e-6 of the largest."""
    values = _arrays.symmetric_matrix(name, distances)
    rounding = 1e-6 * float(np.abs(values).max())
    if values.min() < -rounding or np.abs(np.diagonal(values)).max() > rounding:
        raise ValueError(
            f"`{name}` must be at least 0, and 0 on the diagonal (1 - similarity is such), got {values}."
        )
    values = np.maximum((values + values.T) / 2, 0.0)
    np.fill_diagonal(values, 0.0)
    return values


def matrix_permutation_test(
    first: Distances, second: Distances, *, n_permutations: int = 10_000, key: Key[jax.Array, ""]
) -> PermutationTest:
    """Test whether the correlation of two kinds of distance over pairs of members is above chance.

    Mantel 1967, Cancer Res 27:209-220, with Pearson's correlation as in `mantelTest` of the R package
    biotools. The unit of replication is the member: the members of one matrix are permuted.

    **Arguments:**

    - `n_permutations`: number of random permutations; all, if there are no more.
    """
    x, y = check_distances("first", first), check_distances("second", second)
    _arrays.check_axes("second", y, f"member={len(x)} member")
    above = np.triu_indices(len(x), 1)
    for name, values in (("first", x), ("second", y)):
        if np.ptp(values[above]) == 0:  # also those of two members
            raise ValueError(f"`{name}` must have distances that differ, got {values[above][0]} for all.")
    generator = _arrays.numpy_generator(key)
    exact = math.factorial(len(x)) <= n_permutations
    if exact:
        orders = np.array(list(permutations(range(len(x)))))
    else:
        orders = generator.permuted(np.tile(np.arange(len(x)), (n_permutations, 1)), axis=1)
    reference = _standardise(x[above])
    null = np.array([reference @ _standardise(y[np.ix_(order, order)][above]) for order in orders])
    return permutation_test_result(float(reference @ _standardise(y[above])), null, exact)


def _standardise(values: Float[np.ndarray, " pair"]) -> Float[np.ndarray, " pair"]:
    centred = values - values.mean()
    return centred / np.linalg.norm(centred)


class MemberClusters(NamedTuple):
    """Clusters of members, for every number of clusters.

    - `linkage` [step, 4]: successive merges of clusters in the format of scipy, with similar leaves adjacent.
    - `n_clusters` [number]: from 2 to one fewer than the number of members.
    - `labels` [number, member]: cluster of each member, from 0, for each number of clusters.
    - `silhouettes` [number]: mean silhouette over members, from -1 to 1 (Rousseeuw 1987, J Comput Appl Math
        20:53-65, by scikit-learn): how much closer a member is to its own cluster than to the next.
    - `best`: index of the highest silhouette. There is always one, even without clusters.
    """

    linkage: Float[np.ndarray, "step 4"]
    n_clusters: Int[np.ndarray, " number"]
    labels: Int[np.ndarray, "number member"]
    silhouettes: Float[np.ndarray, " number"]
    best: int


def cluster_members(
    distances: Distances, *, method: Literal["average", "complete", "single"] = "average"
) -> MemberClusters:
    """Cluster members by `scipy.cluster.hierarchy.linkage` and score each number of clusters.

    **Arguments:**

    - `method`: distance of two clusters: the mean, largest or smallest over pairs of members.
    """
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    _arrays.check_choice("method", method, ("average", "complete", "single"))
    values = check_distances("distances", distances)
    if len(values) < 3:
        raise ValueError(f"`distances` must be of three members or more, got {len(values)}.")
    condensed = squareform(values)
    joined = hierarchy.optimal_leaf_ordering(hierarchy.linkage(condensed, method=method), condensed)
    numbers = np.arange(2, len(values))
    labels = hierarchy.cut_tree(joined, n_clusters=numbers).T.astype(int)
    silhouette_score = _arrays.import_optional("sklearn.metrics").silhouette_score
    scores = [silhouette_score(values, clusters, metric="precomputed") for clusters in labels]
    return MemberClusters(joined, numbers, labels, np.array(scores, float), int(np.argmax(scores)))


class MemberMap(NamedTuple):
    """The positions of members on a map.

    - `positions` [member, dimension]: in the unit of the distances, in order of decreasing spread.
    - `fraction`: share of the spread of members, the sum of positive eigenvalues, shown by the map.
    - `eigenvalues` [member]: in decreasing order. Negative ones show the deviation from Euclidean distances.
    """

    positions: Float[np.ndarray, "member dimension"]
    fraction: float
    eigenvalues: Float[np.ndarray, " member"]


def member_map(distances: Distances, *, n_dimensions: int = 2) -> MemberMap:
    """Map members by classical (metric, Torgerson's) multidimensional scaling; deterministic.

    Eigenvectors of -J D^2 J / 2, with J = I - 1/n, times the square roots of their eigenvalues (Torgerson
    1952, Psychometrika 17:401-419; as in `torgerson` of the R package smacof). The sum of the cubed positions
    is positive in each dimension.
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
    fraction = np.maximum(eigenvalues[:n_dimensions], 0.0).sum() / eigenvalues[eigenvalues > 0].sum()
    return MemberMap(positions * _arrays.sign_factors(positions, axis=0), float(fraction), eigenvalues)


_MOST_PAIRS = 2_000_000  # bounds the memory of `_separations`


def group_separation(distances: Distances, groups: Sequence[Any] | Shaped[AnyArray, " member"]) -> float:
    """Return the mean distance between members of different groups minus that within groups.

    **Arguments:**

    - `groups`: label of each member, such as its architecture; integers or names.
    """
    values, codes = _distances_and_groups(distances, groups)
    return float(_separations(values, codes[None])[0])


def group_permutation_test(
    distances: Distances,
    groups: Sequence[Any] | Shaped[AnyArray, " member"],
    *,
    n_permutations: int = 10_000,
    key: Key[jax.Array, ""],
) -> PermutationTest:
    """Test whether `group_separation` is larger than with permuted labels.

    The unit of replication is the member. The null hypothesis is that the members of all groups come from
    one population; groups that differ only in spread can also violate it. The smallest p of two groups of
    five, with 126 different splits, is 1 / 126.

    **Arguments:**

    - `distances`, `groups`: as for `group_separation`.
    - `n_permutations`: number of random labellings; all, if there are no more.
    """
    values, codes = _distances_and_groups(distances, groups)
    statistic = float(_separations(values, codes[None])[0])
    counts = np.bincount(codes)
    n_labellings = math.factorial(len(codes)) // math.prod(math.factorial(int(n)) for n in counts)
    generator = _arrays.numpy_generator(key)
    exact = n_labellings <= n_permutations
    if exact:
        labellings = np.array(list(_all_labellings(counts.tolist())))
    else:
        labellings = generator.permuted(np.tile(codes, (n_permutations, 1)), axis=1)
    return permutation_test_result(statistic, _separations(values, labellings), exact)


def _distances_and_groups(
    distances: Distances, groups: Sequence[Any] | Shaped[AnyArray, " member"]
) -> tuple[Float[np.ndarray, "member member"], Int[np.ndarray, " member"]]:
    values = check_distances("distances", distances)
    names, codes = np.unique(_arrays.as_groups(groups, len(values)), return_inverse=True)
    if len(names) < 2 or np.bincount(codes).max() < 2:
        raise ValueError(
            f"`groups` must be two groups or more, one of them with two members, got {np.asarray(groups)}."
        )
    return values, codes


def _separations(
    distances: Float[np.ndarray, "member member"], labellings: Int[np.ndarray, "labelling member"]
) -> Float[np.ndarray, " labelling"]:
    first, second = np.triu_indices(len(distances), 1)
    values = distances[first, second]
    n_at_once = max(1, _MOST_PAIRS // len(values))
    separations = []
    for begin in range(0, len(labellings), n_at_once):
        some = labellings[begin : begin + n_at_once]
        same = some[:, first] == some[:, second]
        n_same = same.sum(axis=1)
        within = same @ values
        separations.append((values.sum() - within) / (len(values) - n_same) - within / n_same)
    return np.concatenate(separations)


def _all_labellings(counts: list[int]) -> Iterator[list[int]]:
    """Yield every way to assign label g to `counts[g]` members."""
    if not any(counts):
        yield []
    for label, count in enumerate(counts):
        if count:
            remaining = [*counts[:label], count - 1, *counts[label + 1 :]]
            yield from ([label, *others] for others in _all_labellings(remaining))
