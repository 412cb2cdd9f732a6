"""Communication subspaces of areas whose weights are known."""

import jax
import numpy as np
import pytest

from popsim.analysis.neural_activity import communication_subspace, reduced_rank_regression
from popsim.networks import LeakyState

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


def test_samples_without_times_are_trials(areas):
    source, target, _ = areas
    found = communication_subspace(source[:, 0], target[:, 0], key=KEY)
    assert found.regression.weights.shape == (N_SOURCE, N_TARGET)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": np.ones((3, 6))}, r"`target` must have the trials and times of `source`, \(80,\)"),
        ({"target": np.ones((80, 6))}, "`target` must vary"),
        ({"source": np.full((80, 8), np.nan)}, "`source` must be finite"),
        ({"source": np.ones(80)}, "`source` must have axes"),
        ({"max_rank": 7}, "`max_rank` must be from 1 to 6, the smaller number of units, got 7"),
        ({"ridge": -1.0}, "`ridge`"),
        ({"n_folds": 2.5}, "`n_folds` must be a positive whole number, got 2.5"),
        ({"max_rank": 2.0}, "`max_rank` must be a positive whole number, got 2.0"),
        (
            {"source": np.ones((1, 80, 8)), "target": np.ones((1, 80, 6))},
            r"`source` must have four trials or more, got shape \(1, 80, 8\)",
        ),
        ({"n_folds": 41}, "`n_folds` must be from 2 to 40, half the trials, got 41"),
    ],
)
def test_what_does_not_fit_is_refused(areas, as_users_run, options, message):
    source, target, _ = areas
    arrays = {"source": source[:, 0], "target": target[:, 0]} | options
    with pytest.raises(ValueError, match=message):
        communication_subspace(**arrays, key=KEY)


def test_a_rank_above_the_number_of_units_is_refused(areas):
    with pytest.raises(ValueError, match="`rank` must be from 0 to 6, the smaller number of units, got 7"):
        reduced_rank_regression(*areas[:2], 7)


def test_what_is_no_rank_and_no_source_is_refused(areas, as_users_run):
    with pytest.raises(ValueError, match="`rank` must be a whole number from 0 on, got 2.5"):
        reduced_rank_regression(*areas[:2], 2.5)
    with pytest.raises(ValueError, match=r"`source` must have axes \(..., unit\) of 8 units, got shape \(3,"):
        reduced_rank_regression(*areas[:2], 2).predict(np.ones((3, 5)))
    state = LeakyState(np.ones((3, 8)), None)
    with pytest.raises(ValueError, match="`source` must be an array of numbers, got a LeakyState"):
        reduced_rank_regression(state, areas[1], 2)
