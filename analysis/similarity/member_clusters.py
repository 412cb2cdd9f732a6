"""Kinds of members: clusters of those that are alike."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from popsim.analysis.arrays import AnyArray
from popsim.analysis.choices import check_choice
from popsim.analysis.optional_packages import optional
from popsim.analysis.similarity.pairs import check_distances


class MemberClusters(NamedTuple):
    """Clusters of members, for every number of clusters.

    - `linkage` [step, 4]: which clusters are joined one after the other, as scipy writes it; its leaves are
        ordered so that neighbours are alike.
    - `n_clusters` [number]: 2 and more, to one fewer than there are members.
    - `labels` [number, member]: the cluster of each member, from 0, for each number of clusters.
    - `silhouettes` [number]: the mean over members of how much nearer a member is to its own cluster than
        to the next, from -1 to 1 (Rousseeuw 1987, J Comput Appl Math 20:53-65, cited from memory).
    - `best`: which of these numbers has the highest silhouette, as an index. It always finds one, also
        where there are no clusters: look at the silhouettes.
    """

    linkage: Float[np.ndarray, "step 4"]
    n_clusters: Int[np.ndarray, " number"]
    labels: Int[np.ndarray, "number member"]
    silhouettes: Float[np.ndarray, " number"]
    best: int


def cluster_members(
    distances: Float[AnyArray, "member member"],
    *,
    method: Literal["average", "complete", "single"] = "average",
) -> MemberClusters:
    """Hierarchical clusters, by `scipy.cluster.hierarchy.linkage`, and how good each number of them is.

    **Arguments:**

    - `distances`: of all pairs of members, see `pairwise`.
    - `method`: which distance of two clusters counts: the mean over pairs, the largest or the smallest.

    **Raises:** `ValueError` if these are not distances of three members or more; `ImportError` if
    scikit-learn is missing.
    """
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    check_choice("method", method, ("average", "complete", "single"))
    values = check_distances("distances", distances)
    if len(values) < 3:
        raise ValueError(f"`distances` must be of three members or more, got {len(values)}.")
    condensed = squareform(values)
    joined = hierarchy.optimal_leaf_ordering(hierarchy.linkage(condensed, method=method), condensed)
    numbers = np.arange(2, len(values))
    labels = hierarchy.cut_tree(joined, n_clusters=numbers).T.astype(int)
    silhouette_score = optional("sklearn.metrics").silhouette_score
    scores = [silhouette_score(values, own, metric="precomputed") for own in labels]
    return MemberClusters(joined, numbers, labels, np.array(scores, float), int(np.argmax(scores)))
