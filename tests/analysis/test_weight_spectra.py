"""Planted singular values, the null of Gaussian matrices, truncation, modes over training."""

import jax
import numpy as np
import pytest

from popsim.analysis import trainables

PLANTED = np.array([4.0, 2.0, 1.0])


def orthonormal(n_rows, n_columns, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n_rows, n_columns)))[0]


@pytest.fixture
def planted():
    """A 7 x 5 matrix of rank 3."""
    return orthonormal(7, 3, 1) * PLANTED @ orthonormal(5, 3, 2).T


def test_planted_singular_values_of_a_change_are_found(planted):
    start = np.random.default_rng(3).normal(size=(2, 7, 5))
    weights = np.stack([start, start + planted, start + [0.5 * planted, 3 * planted]])
    found = trainables.change_singular_values(weights, initial=weights[0])
    expected = np.array([[0, 0], [1, 1], [0.5, 3]])[..., None] * np.append(PLANTED, [0, 0])
    np.testing.assert_allclose(found, expected, atol=1e-12)
    from_zero = trainables.change_singular_values(weights[:1] * 0 + planted, initial=np.zeros((2, 7, 5)))
    np.testing.assert_allclose(from_zero[0, :, :3], [PLANTED] * 2)


def test_numbers_of_dimensions_by_hand():
    values = np.array([[4.0, 2.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [5.0, 0.0, 0.0, 0.0]])
    shares = np.array([4, 2, 1]) / 7
    np.testing.assert_allclose(
        trainables.effective_rank(values), [np.prod(shares**-shares), 3, 1], rtol=1e-12
    )
    np.testing.assert_allclose(
        trainables.participation_ratio_of_singular_values(values), [21**2 / 273, 3, 1], rtol=1e-12
    )
    for measure in (trainables.effective_rank, trainables.participation_ratio_of_singular_values):
        np.testing.assert_allclose(measure(1e-200 * values), measure(values))
        assert np.isnan(measure(np.zeros(4)))


@pytest.mark.parametrize("shape", [(96, 32), (8, 8), (1, 20)])
def test_the_closed_null_is_what_drawn_gaussian_matrices_have(shape):
    drawn = trainables.gaussian_singular_values(*shape, n_draws=400, norm=2.5, key=jax.random.key(0))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 2.5)
    ratios = trainables.participation_ratio_of_singular_values(drawn)
    closed = trainables.gaussian_participation_ratio(*shape)
    error = ratios.std() / 20 + 0.3 * closed / np.prod(shape)
    assert abs(ratios.mean() - closed) < 4 * error
    assert np.all(np.diff(drawn, axis=1) <= 0)


def test_the_null_of_large_matrices_is_the_harmonic_one():
    assert trainables.gaussian_participation_ratio(1, 1) == 1.0
    np.testing.assert_allclose(trainables.gaussian_participation_ratio(3000, 1000), 750, rtol=1e-3)


def test_a_truncated_change_is_the_nearest_of_its_rank(planted):
    for rank, left in ((0, 21), (1, 5), (2, 1), (3, 0), (5, 0)):
        nearest = trainables.low_rank_approximation(np.stack([planted, 2 * planted]), rank)
        np.testing.assert_allclose(np.sum((nearest[0] - planted) ** 2), left, atol=1e-12)
        np.testing.assert_allclose(nearest[1], 2 * nearest[0], atol=1e-12)
        assert np.linalg.matrix_rank(nearest[0], tol=1e-9) == min(rank, 3)


def test_strengths_of_given_modes_are_the_planted_ones():
    left, right = orthonormal(7, 3, 1), orthonormal(5, 3, 2)
    strengths = np.array([[0.0, 1.0, 2.0], [3.0, 2.0, -1.0]])[:, None] * np.array([1.0, 2.0])[:, None]
    weights = np.einsum("ra,tma,ca->tmrc", left, strengths, right)
    np.testing.assert_allclose(trainables.mode_strengths(weights, left, right), strengths, atol=1e-12)
    own = np.stack([left, -left]), np.stack([right, right])
    signs = np.array([1, -1])[:, None]
    np.testing.assert_allclose(trainables.mode_strengths(weights, *own), signs * strengths, atol=1e-12)


def test_the_modes_that_training_ended_with(planted):
    weights = np.stack([0.1 * planted, planted])[:, None]
    modes = trainables.final_modes(weights, 3)
    np.testing.assert_allclose(modes.strengths, [PLANTED])
    found = trainables.mode_strengths(weights, modes.left, modes.right)
    np.testing.assert_allclose(found[:, 0], [0.1 * PLANTED, PLANTED])
    np.testing.assert_allclose(
        (modes.left * modes.strengths[:, None]) @ np.swapaxes(modes.right, 1, 2), [planted], atol=1e-12
    )


def rotation(angle, radius):
    return radius * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_rotations_have_their_angles_and_radii():
    weights = np.stack([[rotation(0.3, 0.9), rotation(1.2, 1.5)], [rotation(2.0, 0.5), rotation(0.0, 2.0)]])
    found = trainables.recurrent_eigenvalues(weights)
    assert found.shape == (2, 2, 2) and found.dtype == np.complex128
    np.testing.assert_allclose(np.abs(np.angle(found[0])), [[0.3, 0.3], [1.2, 1.2]])
    np.testing.assert_allclose(trainables.spectral_radius(weights), [[0.9, 1.5], [0.5, 2.0]])


def test_the_largest_come_first_and_of_gated_units_the_candidates_count():
    candidate = np.diag([0.1, -3.0, 2.0])
    gates = np.full((6, 3), 100.0)
    weights = np.concatenate([gates, candidate])[None, None]
    np.testing.assert_allclose(trainables.recurrent_eigenvalues(weights)[0, 0], [-3.0, 2.0, 0.1])
