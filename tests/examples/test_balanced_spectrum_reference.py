"""The spectrum of weights from two kinds of units against eigenvalues of drawn weights."""

import dataclasses

import numpy as np
import pytest

spectrum = pytest.importorskip("references.balanced_spectrum", reason="examples/ is not beside the tests")

UNBALANCED = spectrum.Weights(200, 0.75, (1.0, -1.0), (1.0, 2.0))


def eigenvalues(distribution, n_networks, *, rows_sum_to_zero=False, seed=0):
    rng = np.random.default_rng(seed)
    draws = [
        spectrum.draw_weights(distribution, rng, rows_sum_to_zero=rows_sum_to_zero) for _ in range(n_networks)
    ]
    return np.linalg.eigvals(np.stack(draws))


def test_known_values():
    assert UNBALANCED.radius == pytest.approx(1.75**0.5)
    assert UNBALANCED.outlier == pytest.approx(200**0.5 / 2)
    assert UNBALANCED.outlier_deviation == pytest.approx(1.75**0.5 * 2 / 200**0.5)


def test_drawn_weights_have_the_means_and_deviations_of_their_kinds():
    weights = spectrum.draw_weights(UNBALANCED, np.random.default_rng(0), rows_sum_to_zero=False) * 200**0.5
    for kind, columns in enumerate((weights[:, :150], weights[:, 150:])):
        assert columns.mean() == pytest.approx(UNBALANCED.means[kind], abs=0.05)
        assert columns.std() == pytest.approx(UNBALANCED.deviations[kind], rel=0.03)


def test_balanced_means_change_no_eigenvalue_of_rows_that_sum_to_zero():
    balanced = dataclasses.replace(UNBALANCED, means=(1.0, -3.0))
    without = dataclasses.replace(UNBALANCED, means=(0.0, 0.0))
    with_means, same = (eigenvalues(w, 3, rows_sum_to_zero=True) for w in (balanced, without))
    np.testing.assert_allclose(np.abs(with_means).max(axis=1), np.abs(same).max(axis=1), rtol=1e-8)
    on_average = np.abs(eigenvalues(balanced, 3)).max(axis=1)
    assert np.abs(with_means).max(axis=1).mean() < 1.1 * balanced.radius < on_average.mean() / 1.1
