"""What a matrix of distances of members tells: groups, maps, clusters, and other matrices."""

import jax
import numpy as np
from scipy.spatial.distance import pdist, squareform

from popsim.analysis import similarity

KEY = jax.random.key(0)


def distances_of(points):
    return squareform(pdist(np.asarray(points, float)))


TWO_GROUPS = distances_of([[0.0], [1.0], [0.5], [9.0], [10.0], [9.2]])


def test_separation_is_the_mean_between_less_the_mean_within():
    distances = np.array([[0.0, 1, 4, 6], [1, 0, 5, 5], [4, 5, 0, 3], [6, 5, 3, 0]])
    assert similarity.group_separation(distances, ["a", "a", "b", "b"]) == 5.0 - 2.0


def test_all_labellings_are_gone_through_where_they_are_few():
    groups = np.repeat([0, 1], 3)
    test = similarity.group_permutation_test(TWO_GROUPS, groups, key=KEY)
    assert test.exact and len(test.null) == 20 and test.p == 2 / 20  # the split, and its mirror image
    assert test.statistic == similarity.group_separation(TWO_GROUPS, groups) == test.null.max()
    drawn = similarity.group_permutation_test(TWO_GROUPS, groups, n_permutations=19, key=KEY)
    assert not drawn.exact and len(drawn.null) == 19 and drawn.p >= 1 / 20
    np.testing.assert_allclose(np.isin(drawn.null.round(9), test.null.round(9)), True)


def test_distances_of_the_same_members_go_together_and_others_do_not():
    generator = np.random.default_rng(3)
    points = generator.normal(size=(9, 2))
    found = similarity.matrix_permutation_test(
        distances_of(points), 2 * distances_of(points), n_permutations=999, key=KEY
    )
    np.testing.assert_allclose([found.statistic, found.p], [1.0, 1 / 1000])
    few = similarity.matrix_permutation_test(distances_of(points[:5]), distances_of(points[:5] ** 3), key=KEY)
    assert few.exact and len(few.null) == 120
    expected = np.corrcoef(pdist(points[:5]), pdist(points[:5] ** 3))[0, 1]
    np.testing.assert_allclose(few.statistic, expected)


def test_a_map_keeps_the_distances_of_points_and_tells_what_it_leaves_out():
    points = np.random.default_rng(0).normal(size=(7, 3)) * [5, 2, 0.5]
    everything = similarity.member_map(distances_of(points), n_dimensions=3)
    np.testing.assert_allclose(distances_of(everything.positions), distances_of(points), atol=1e-9)
    plane = similarity.member_map(distances_of(points))
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False) ** 2
    np.testing.assert_allclose(plane.fraction, spread[:2].sum() / spread.sum(), rtol=1e-9)
    np.testing.assert_allclose(plane.eigenvalues[:3], spread, rtol=1e-9)
    np.testing.assert_allclose(plane.positions, everything.positions[:, :2], atol=1e-9)
    assert np.all(np.sum(plane.positions**3, axis=0) > 0)


def test_planted_clusters_are_found_and_their_number_too():
    generator = np.random.default_rng(0)
    kinds = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    points = np.array([[0, 0], [10, 0], [0, 10]])[kinds] + generator.normal(size=(8, 2))
    found = similarity.cluster_members(distances_of(points))
    assert found.n_clusters.tolist() == [2, 3, 4, 5, 6, 7] and found.n_clusters[found.best] == 3
    labels = found.labels[found.best]
    assert len(set(zip(labels, kinds, strict=True))) == 3 and found.silhouettes[found.best] > 0.7
    assert [len(set(own)) for own in found.labels] == [2, 3, 4, 5, 6, 7]
    alike = similarity.cluster_members(
        distances_of([[0], [0], [0], [1]])
    )  # members that cannot be told apart
    assert [len(set(own)) for own in alike.labels] == [2, 3]


def test_conditions_are_as_different_as_planted_and_trials_of_one_are_averaged():
    means = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    condition = np.array(["c", "a", "b", "a", "c", "b"])
    activity = means[[2, 0, 1, 0, 2, 1]] + np.array([1, 1, 1, -1, -1, -1])[:, None]
    found = similarity.representational_dissimilarities(np.stack([activity, 2 * activity]), condition)
    np.testing.assert_allclose(found[0], [[0, 4.5, 8], [4.5, 0, 12.5], [8, 12.5, 0]])
    np.testing.assert_allclose(found[1], 4 * found[0])
    by_correlation = similarity.representational_dissimilarities(
        np.array([[1.0, 2, 3], [2, 4, 6], [3, 2, 1]]), np.arange(3), method="correlation"
    )
    np.testing.assert_allclose(by_correlation, [[0, 0, 2], [0, 0, 2], [2, 2, 0]], atol=1e-12)


def test_members_with_the_same_geometry_are_alike_whatever_their_units_are():
    generator = np.random.default_rng(0)
    first = generator.normal(size=(6, 4))
    turned = 3 * first @ np.linalg.qr(generator.normal(size=(4, 4)))[0] + 1
    other = generator.normal(size=(6, 9))
    members = [similarity.representational_dissimilarities(x, np.arange(6)) for x in (first, turned, other)]
    found = similarity.pairwise(members, similarity.compare_dissimilarities)
    np.testing.assert_allclose(found[0, 1], 1.0)
    above = np.triu_indices(6, 1)
    np.testing.assert_allclose(found[0, 2], np.corrcoef(members[0][above], members[2][above])[0, 1])
    cosine = similarity.compare_dissimilarities(members[0], members[2], method="cosine")
    expected = members[0][above] @ members[2][above]
    expected /= np.linalg.norm(members[0][above]) * np.linalg.norm(members[2][above])
    np.testing.assert_allclose(cosine, expected)
