"""Which units take part in which tasks: task variance, and clusters of units."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Key

from popsim._shared.checks import check_non_negative
from popsim.analysis import _arrays
from popsim.analysis._arrays import Activity, AnyArray

__all__ = ["task_variance", "UnitClusters", "cluster_units"]

N_STARTS = 20  # of k-means for each number of clusters, as in the authors' code


def task_variance(activity: Mapping[str, Activity]) -> Float[np.ndarray, "member unit task"]:
    """Return the variance of each unit's activity over the trials of each task, averaged over time.

    Yang, Joglekar, Song, Newsome & Wang 2019, Nat Neurosci 22:297-306; as in `analysis/variance.py` of their
    repository multitask. They simulate without noise, and leave out the first fixation.

    **Arguments:**

    - `activity`: activity of the units in the trials of each task, by the name of the task. The tasks may
        differ in their numbers of trials and times, not in members and units.

    **Returns:** in squared units of the activity, the tasks in the order given.
    """
    variances = []
    for task, hidden in activity.items():
        values = _arrays.as_activity(f"activity[{task!r}]", hidden)
        if values.shape[1] < 2:
            raise ValueError(f"`activity[{task!r}]` must have two trials or more, got {values.shape[1]}.")
        variances.append(values.var(axis=1).mean(axis=1))
    return np.stack(variances, axis=-1)


class UnitClusters(NamedTuple):
    """Clusters of the units of one member, by the tasks in which their activity varies.

    - `unit`: numbers of the active units, those whose variance, summed over tasks, is above the threshold.
    - `normalized`: variance of these units over its maximum over tasks.
    - `n_clusters`: from 2 up.
    - `labels`: cluster of each active unit, from 0, for each number of clusters. Clusters are in the order of
        the tasks in which they vary most.
    - `silhouettes`: mean silhouette over units, from -1 to 1 (Rousseeuw 1987, J Comput Appl Math 20:53-65, by
        scikit-learn), for each number of clusters.
    - `best`: index of the highest silhouette. There is always one, even without clusters.
    """

    unit: Int[np.ndarray, " active"]
    normalized: Float[np.ndarray, "active task"]
    n_clusters: Int[np.ndarray, " number"]
    labels: Int[np.ndarray, "number active"]
    silhouettes: Float[np.ndarray, " number"]
    best: int


def cluster_units(
    variance: Float[AnyArray, "unit task"],
    *,
    least_variance: float = 1e-3,
    max_clusters: int = 29,
    key: Key[jax.Array, ""],
) -> UnitClusters:
    """Cluster the units of one member by their normalized task variance, by k-means.

    Yang, Joglekar, Song, Newsome & Wang 2019, Nat Neurosci 22:297-306; threshold, normalization and choice of
    the number of clusters are as in `analysis/clustering.py` of their repository multitask.

    **Arguments:**

    - `variance`: of one member, such as `task_variance(...)[0]`.
    - `least_variance`: units whose variance, summed over tasks, is at most this are left out; in squared
        units of the activity. The default is that of the authors, for rates of about 1.
    - `max_clusters`: the largest number of clusters that is tried; fewer if there are fewer different units.
    """
    values = _arrays.finite_float64("variance", variance, "unit task")
    check_non_negative("variance", values)
    units = np.flatnonzero(values.sum(axis=1) > least_variance)
    active = values[units]
    normalized = active / active.max(axis=1, keepdims=True)
    n_different = len(np.unique(normalized, axis=0))
    if n_different < 3:
        raise ValueError(
            f"`variance` must have three units or more that differ and are above `least_variance`, "
            f"{least_variance}, got {n_different} of {len(values)}."
        )
    # A silhouette needs fewer clusters than units, and k-means no more clusters than there are points.
    numbers = np.arange(2, min(max_clusters, n_different, len(units) - 1) + 1)
    means = _arrays.import_optional("sklearn.cluster").KMeans
    silhouette_score = _arrays.import_optional("sklearn.metrics").silhouette_score
    seed = int(_arrays.numpy_generator(key).integers(2**31))
    labels = np.stack(
        [
            _in_order_of_tasks(
                means(n, n_init=N_STARTS, random_state=seed).fit_predict(normalized), normalized
            )
            for n in numbers.tolist()
        ]
    )
    silhouettes = np.array([silhouette_score(normalized, clusters) for clusters in labels], float)
    return UnitClusters(units, normalized, numbers, labels, silhouettes, int(np.argmax(silhouettes)))


def _in_order_of_tasks(
    labels: Int[np.ndarray, " active"], normalized: Float[np.ndarray, "active task"]
) -> Int[np.ndarray, " active"]:
    clusters, first_unit = np.unique(labels, return_index=True)
    sums = np.stack([normalized[labels == cluster].sum(axis=0) for cluster in clusters])
    order = np.lexsort((first_unit, np.argmax(sums, axis=1)))
    rank = np.empty(len(clusters), int)
    rank[order] = np.arange(len(clusters))
    return rank[np.searchsorted(clusters, labels)]
