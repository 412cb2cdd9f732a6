"""Distances of networks of two kinds: the gates hold for kinds that differ and not for those that do not."""

import jax
import numpy as np
import pytest

from popsim.analysis.similarity import group_permutation_test, member_map

pytest.importorskip("gates", reason="examples/ is not beside the tests")

from gates import exit_code  # noqa: E402
from network_distances import NetworkDistances, distance_rows  # noqa: E402


def found_of(points):
    """Networks at places on a line."""
    points = np.asarray(points, float)
    distances = np.abs(points[:, None] - points)
    cells = np.repeat(["GRU", "tanh"], len(points) // 2)
    test = group_permutation_test(distances, cells, key=jax.random.key(0))
    return NetworkDistances(distances, cells, member_map(distances, n_dimensions=2), test)


def test_kinds_that_are_apart_pass_and_mixed_groups_fail():
    rows = distance_rows("trained", found_of([0, 0.1, 0.05, 0.12, 0.02, 0.5, 0.6, 0.55, 0.52, 0.63]), 0)
    assert [row.passed for row in rows] == [True, True, False, False] and exit_code(rows) == 0
    assert [row.must_fail for row in rows] == [False, False, True, True]
    np.testing.assert_allclose(rows[1].value, 1 / 126)
    np.testing.assert_allclose(rows[0].ratio, 0.502 / np.mean([0.06, 0.068]), rtol=0.05)


def test_kinds_that_are_not_apart_fail():
    rows = distance_rows("trained", found_of([0, 0.5, 0.1, 0.6, 0.2, 0.05, 0.55, 0.12, 0.61, 0.23]), 0)
    assert not rows[1].passed and exit_code(rows) == 1
