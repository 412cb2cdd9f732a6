"""Task variance and clusters of made-up units."""

import jax
import numpy as np
import pytest

from popsim.analysis.neural_activity import cluster_units, task_variance

KEY = jax.random.key(0)
N_PER_CLUSTER = 6
PATTERNS = np.array([[0.0, 1.0, 0.1], [1.0, 0.0, 0.0], [0.1, 0.2, 1.0], [1.0, 1.0, 1.0]])
"""Variance in three tasks of the units of each cluster."""


@pytest.fixture
def variance():
    """Of units of four clusters, of all sizes, and of three units that are silent, first and last."""
    rng = np.random.default_rng(0)
    units = np.repeat(PATTERNS, N_PER_CLUSTER, axis=0) * rng.uniform(0.9, 1.1, size=(24, 3))
    scaled = units * rng.uniform(0.1, 10, size=(24, 1))
    return np.concatenate([np.zeros((1, 3)), scaled, np.full((2, 3), 1e-5)])


def test_variance_is_over_trials_and_averaged_over_time():
    rng = np.random.default_rng(1)
    activity = {"go": rng.normal(size=(2, 5, 7, 3)), "anti": rng.normal(size=(2, 4, 6, 3))}
    found = task_variance(activity)
    assert found.shape == (2, 3, 2)
    for task, name in enumerate(activity):
        for member, unit in np.ndindex(2, 3):
            at_times = [np.var(over_trials) for over_trials in activity[name][member, :, :, unit].T]
            np.testing.assert_allclose(found[member, unit, task], np.mean(at_times))


def test_known_clusters_are_found(variance):
    found = cluster_units(variance, max_clusters=5, key=KEY)
    assert found.unit.tolist() == list(range(1, 25))
    np.testing.assert_allclose(found.normalized.max(axis=1), 1.0)
    assert found.n_clusters.tolist() == list(range(2, 6)) and found.n_clusters[found.best] == 4
    by_cluster = found.labels[found.best].reshape(4, N_PER_CLUSTER)
    np.testing.assert_array_equal(by_cluster, by_cluster[:, :1].repeat(N_PER_CLUSTER, axis=1))
    preferred = [found.normalized[found.labels[found.best] == c].sum(axis=0).argmax() for c in range(4)]
    assert preferred == sorted(preferred)
    assert found.silhouettes[found.best] > 0.8


def test_clusters_depend_on_neither_the_scale_nor_the_order_of_units(variance):
    order = np.random.default_rng(2).permutation(27)
    first = cluster_units(variance, max_clusters=4, key=KEY)
    second = cluster_units(1000 * variance[order], least_variance=1.0, max_clusters=4, key=KEY)
    same = first.labels[2][:, None] == first.labels[2]
    places = np.searchsorted(first.unit, order[second.unit])
    np.testing.assert_array_equal(second.labels[2][:, None] == second.labels[2], same[places][:, places])


def test_there_are_no_more_clusters_than_different_units():
    variance = np.repeat(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), 2, axis=0)
    found = cluster_units(variance, key=KEY)
    assert found.n_clusters.tolist() == [2, 3] and found.labels[found.best].tolist() == [0, 0, 2, 2, 1, 1]
