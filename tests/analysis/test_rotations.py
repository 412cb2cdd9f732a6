"""Rotations that were planted with their control that knows only covariances, and tangling."""

import jax
import numpy as np
import pytest

from popsim.analysis.neural_activity import maximum_entropy_activity, rotation_test, rotations, tangling

DT = 0.01


def planted_rotations(frequencies, n_trials=8, n_steps=40, n_units=12, seed=0):
    """A member whose activity turns at each frequency in a plane of its own, from random states."""
    random = np.random.default_rng(seed)
    planes = np.linalg.qr(random.normal(size=(n_units, n_units)))[0][: 2 * len(frequencies)]
    start = random.normal(size=(n_trials, len(frequencies))) + 1j * random.normal(
        size=(n_trials, len(frequencies))
    )
    start = start - start.mean(axis=0)
    turned = start[:, None] * np.exp(2j * np.pi * np.array(frequencies) * DT * np.arange(n_steps)[:, None])
    latent = np.stack([turned.real, turned.imag], axis=-1).reshape(n_trials, n_steps, -1)
    return (latent @ planes)[None], planes.reshape(-1, 2, n_units), turned


def smooth_activity(n_members, seed=0):
    """Members whose activity is smooth and correlated, and else random."""
    random = np.random.default_rng(seed)
    lags = np.arange(20)
    smooth = np.linalg.cholesky(np.exp(-((lags[:, None] - lags) ** 2) / 18) + 1e-6 * np.eye(20))
    mixing = random.normal(size=(8, 8)) * 0.7 ** np.arange(8)
    draws = random.normal(size=(n_members, 6, 20, 8))
    return np.einsum("ts,mrsc,uc->mrtu", smooth, draws, mixing)


def test_planted_rotations_are_found():
    activity, planes, turned = planted_rotations([1.0, 3.0])
    found = rotations(activity, dt=DT, n_components=4)
    np.testing.assert_allclose(found.frequency, [[3.0, 1.0]], rtol=1e-9)
    np.testing.assert_allclose([found.r2_skew, found.r2_full], 1.0)
    for plane, planted in zip(found.axes[0], planes[::-1], strict=True):
        np.testing.assert_allclose(plane @ plane.T, np.eye(2), atol=1e-9)
        np.testing.assert_allclose(np.linalg.svd(plane @ planted.T)[1], 1.0)
    power = np.mean(np.abs(turned) ** 2, axis=(0, 1))[::-1]
    np.testing.assert_allclose(found.explained[0], power / power.sum())
    first = found.projections[0, :, 0]  # turned so that it is widest along the first axis, anticlockwise
    np.testing.assert_allclose(np.sum(first[..., 0] * first[..., 1], axis=0), 0.0, atol=1e-9)
    assert (np.sum(first**2, axis=0)[:, 0] >= np.sum(first**2, axis=0)[:, 1]).all()
    x, y = np.moveaxis(found.projections[0], -1, 0)
    assert (x[:, :-1] * y[:, 1:] - y[:, :-1] * x[:, 1:] > 0).all()


def test_the_fit_is_the_least_squares_one_among_skew_matrices():
    """Against the regression on all skew-symmetric matrices one by one; all components are kept."""
    activity = smooth_activity(1)[..., :4]
    found = rotations(activity, dt=DT, n_components=4)
    centered = activity[0] - activity[0].mean(axis=(0, 1))
    states, changes = (centered[:, 1:] + centered[:, :-1]) / 2, np.diff(centered, axis=1)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    columns = []
    for i, j in pairs:
        turn = np.zeros((4, 4))
        turn[i, j], turn[j, i] = 1, -1
        columns.append((states @ turn).ravel())
    residual = np.linalg.lstsq(np.stack(columns, 1), changes.ravel(), rcond=None)[1]
    np.testing.assert_allclose(found.r2_skew, 1 - residual / np.sum(changes**2))
    full = np.linalg.lstsq(states.reshape(-1, 4), changes.reshape(-1, 4), rcond=None)[1]
    np.testing.assert_allclose(found.r2_full, 1 - full.sum() / np.sum(changes**2))
    assert 0 < found.r2_skew[0] < found.r2_full[0] < 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_rounding_of_single_precision_is_no_plane(dtype, as_users_run):
    activity = planted_rotations([2.0])[0].astype(dtype)
    np.testing.assert_allclose(rotations(activity, dt=DT, n_components=2).frequency, [[2.0]], rtol=1e-5)
    with pytest.raises(ValueError, match="`activity` must span 6 dimensions"):
        rotations(activity, dt=DT, n_components=6)


def test_random_activity_is_the_most_random_with_the_covariances_of_the_data():
    """The variances have the right sums, and their inverses are sums of one term for each axis: no other
    normal distribution has both."""
    activity = smooth_activity(2) + np.arange(8)
    found = maximum_entropy_activity(activity)
    rest = activity - found.mean
    for axis, directions in zip((1, 2, 3), found.directions, strict=True):
        rows = np.moveaxis(rest, axis, 1).reshape(2, rest.shape[axis], -1)
        power = np.moveaxis(found.deviation**2, axis, 1).reshape(2, rest.shape[axis], -1).sum(axis=2)
        expected = rows @ rows.mT
        matched = directions * power[:, None] @ directions.mT
        np.testing.assert_allclose(matched, expected, atol=1e-4 * np.abs(expected).max())
        others = tuple({1, 2, 3} - {axis})
        np.testing.assert_allclose(rest.mean(axis=others), 0.0, atol=1e-9)
    inverse = 1 / found.deviation[0, :5, :10] ** 2  # one direction over trials is empty
    parts = inverse - inverse[:1] - inverse[:, :1] + inverse[:1, :1]
    np.testing.assert_allclose(parts / inverse.max(), 0.0, atol=1e-9)


def test_planted_rotations_are_more_than_their_covariances():
    activity, _, _ = planted_rotations([1.0, 2.0, 3.5])
    found = rotation_test(activity, dt=DT, n_draws=99, key=jax.random.key(0))
    np.testing.assert_allclose(found.r2_skew, 1.0)
    assert found.random_r2_skew.shape == (99, 1) and found.random_r2_skew.max() < 0.9
    np.testing.assert_allclose([found.p_skew, found.p_full, found.p_ratio], 0.01)


N_STEPS = 200
ANGLE = 2 * np.pi * np.arange(N_STEPS) / N_STEPS
SPEED = 2 * np.pi / (N_STEPS * DT)  # rad/s


def trajectory(*columns: np.ndarray) -> np.ndarray:
    """One trial of a member with five units, in which the columns are mixed at right angles."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    return (np.stack(columns, axis=-1) @ basis[: len(columns)])[None, None] + 2.0


@pytest.mark.parametrize("softening", [0.1, 0.5])
def test_a_circle_is_as_little_tangled_everywhere(softening):
    activity = trajectory(3 * np.cos(ANGLE), 3 * np.sin(ANGLE))
    found = tangling(activity, dt=DT, softening=softening)
    np.testing.assert_allclose(found, 4 * SPEED**2 / (4 + softening), rtol=1e-3)
    np.testing.assert_allclose(tangling(10 * activity, dt=DT, softening=softening), found)


def test_many_states_are_compared_in_parts():
    activity = np.random.default_rng(0).normal(size=(1, 6, 100, 4))
    found = tangling(activity, dt=1.0)[0].ravel()
    states = activity[0].reshape(-1, 4)
    velocity = np.gradient(activity[0], axis=1, edge_order=2).reshape(-1, 4)
    apart, turned = (np.sum((x[:, None] - x) ** 2, axis=-1) for x in (states, velocity))
    added = 0.1 * states.var(axis=0).sum()
    np.testing.assert_allclose(found, np.max(turned / (apart + added), axis=1))
