"""Distances of networks of two kinds: the gates hold for kinds that differ and not for those that do not."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

import popsim
from popsim.analysis.similarity import group_permutation_test, member_map

pytest.importorskip("gates", reason="examples/ is not beside the tests")

from figures.network_distances import draw_network_map  # noqa: E402
from flip_flop import FlipFlop  # noqa: E402
from gates import exit_code  # noqa: E402
from network_distances import NetworkDistances, distance_rows, network_distances  # noqa: E402


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


def test_so_few_networks_that_p_could_never_pass_are_only_reported():
    rows = distance_rows("trained", found_of([0, 0.1, 0.5, 0.6]), 0)
    assert all(row.gate is None and not row.must_fail for row in rows) and len(rows) == 4


@pytest.mark.slow
def test_networks_that_are_the_same_are_at_no_distance():
    def build(key):
        return popsim.NetworkModel(popsim.networks.LeakyRNN(3, 6, 3, tau=2.0, dt=1.0, key=key), dt=1.0)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    found = network_distances({"GRU": ensemble, "tanh": ensemble}, FlipFlop(n_steps=20), seed=0)
    assert found.cells.tolist() == ["GRU", "GRU", "tanh", "tanh"]
    np.testing.assert_allclose([found.distances[0, 2], found.distances[1, 3]], 0.0, atol=1e-9)
    np.testing.assert_allclose(found.distances[0, 1], found.distances[2, 3], atol=1e-12)
    figure, ax = plt.subplots()
    draw_network_map(ax, found.chart.positions, found.cells, found.chart.fraction, 0.1, 0.02)
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), found.chart.positions[2:])
    assert "p = 0.020" in ax.texts[0].get_text()
    plt.close(figure)
