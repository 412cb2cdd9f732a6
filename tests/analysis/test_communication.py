"""Communication subspaces of areas whose weights are known."""

import jax
import numpy as np
import pytest

from popsim.analysis.neural_activity import communication_subspace, reduced_rank_regression

N_TRIALS, N_TIMES, N_SOURCE, N_TARGET, RANK = 80, 4, 8, 6, 2
KEY = jax.random.key(0)


@pytest.fixture
def areas():
    """Two areas that communicate in two dimensions, of unequal strength; and the weights between them."""
    rng = np.random.default_rng(1)
    source = rng.normal(size=(N_TRIALS, N_TIMES, N_SOURCE)) * np.linspace(0.5, 2, N_SOURCE) + 3.0
    weights = rng.normal(size=(N_SOURCE, RANK)) @ (
        np.array([[2.0], [1.0]]) * rng.normal(size=(RANK, N_TARGET))
    )
    return source, source @ weights + rng.normal(size=(N_TRIALS, N_TIMES, N_TARGET)) - 1.0, weights


def test_the_rank_of_communication_is_found(areas):
    source, target, weights = areas
    found = communication_subspace(source, target, key=KEY)
    assert found.chosen == RANK and found.rank.tolist() == list(range(N_TARGET + 1))
    explained = 1 - 1 / np.mean(np.var(target, axis=(0, 1)))
    np.testing.assert_allclose(found.r2[RANK], explained, atol=0.02)
    assert found.r2[0] < 1e-3 < found.r2[1] < found.r2[RANK] - 2 * found.standard_error[RANK]
    np.testing.assert_allclose(found.regression.weights, weights, atol=0.4)
    assert np.linalg.matrix_rank(found.regression.weights) == RANK
    spanned = np.linalg.lstsq(found.regression.dimensions, found.regression.weights)[0]
    np.testing.assert_allclose(found.regression.dimensions @ spanned, found.regression.weights, atol=1e-9)


def test_areas_without_communication_have_rank_zero(areas):
    source, target, _ = areas
    other = np.random.default_rng(2).normal(size=target.shape)
    found = communication_subspace(source, other, max_rank=3, key=KEY)
    assert found.chosen == 0 and found.rank.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(found.regression.predict(source), np.tile(other.mean(axis=(0, 1)), (80, 4, 1)))


@pytest.mark.parametrize("ridge", [0.0, 30.0])
def test_full_rank_is_ordinary_or_ridge_regression(areas, ridge):
    source, target, _ = areas
    found = reduced_rank_regression(source, target, N_TARGET, ridge=ridge)
    x, y = source.reshape(-1, N_SOURCE), target.reshape(-1, N_TARGET)
    centred = x - x.mean(axis=0)
    expected = np.linalg.solve(
        centred.T @ centred + ridge * np.eye(N_SOURCE), centred.T @ (y - y.mean(axis=0))
    )
    np.testing.assert_allclose(found.weights, expected, rtol=1e-9)
    np.testing.assert_allclose(found.predict(x).mean(axis=0), y.mean(axis=0))


def test_no_other_weights_of_the_rank_fit_better(areas):
    source, target, _ = areas
    found = reduced_rank_regression(source, target, 1)

    def error(weights):
        residual = target - source @ weights
        return np.sum((residual - residual.mean(axis=(0, 1))) ** 2)

    patterns = found.dimensions.T @ found.weights / np.sum(found.dimensions**2)
    rng = np.random.default_rng(3)
    for _ in range(20):
        moved = found.dimensions + 0.01 * rng.normal(size=found.dimensions.shape)
        assert error(moved @ (patterns + 0.01 * rng.normal(size=patterns.shape))) > error(found.weights)
