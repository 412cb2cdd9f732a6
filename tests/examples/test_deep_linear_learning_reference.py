"""The closed forms of deep linear learning against the integrated gradient flow."""

import numpy as np
import pytest

deep = pytest.importorskip("references.deep_linear_learning", reason="examples/ is not beside the tests")

STRENGTHS = np.array([4.0, 3.0, 2.0, 1.0])
N = 8


def _orthogonal(rng):
    return np.linalg.qr(rng.standard_normal((N, N)))[0]


@pytest.fixture
def task():
    """U, V and the map."""
    rng = np.random.default_rng(0)
    U, V = _orthogonal(rng)[:, :4], _orthogonal(rng)[:, :4]
    return U, V, U * STRENGTHS @ V.T


def _strengths(U, V, W1, W2):
    return np.einsum("ia,...ij,...jk,ka->...a", U, W2, W1, V)


def test_the_known_half_times():
    times = [deep.half_time(s, 0.03**2) for s in STRENGTHS]
    np.testing.assert_allclose(times, [1.0499, 1.3519, 1.9265, 3.5061], rtol=0, atol=5e-5)
    for s, time in zip(STRENGTHS, times, strict=True):
        assert deep.mode_strength(np.array(time), s, 0.03**2) == pytest.approx(s / 2)


def test_aligned_modes_follow_their_sigmoids(task):
    U, V, target = task
    hidden = _orthogonal(np.random.default_rng(1))[:, :4]
    times = np.linspace(0, 5, 26)
    W1, W2 = deep.gradient_flow(0.03 * hidden @ V.T, 0.03 * U @ hidden.T, target, times)
    expected = np.stack([deep.mode_strength(times, s, 0.03**2) for s in STRENGTHS], axis=-1)
    np.testing.assert_allclose(_strengths(U, V, W1, W2), expected, rtol=0, atol=1e-6)


def test_the_flow_conserves_the_imbalance_of_the_layers(task):
    W1, W2 = 0.3 * np.random.default_rng(2).standard_normal((2, 5, N, N))
    path = deep.imbalance(*deep.gradient_flow(W1, W2, task[2], np.array([0.0, 1.0, 3.0])))
    assert np.abs(path[0]).max() > 0.1
    np.testing.assert_allclose(path[1:] - path[0], 0, rtol=0, atol=1e-8)


def test_the_half_times_from_random_weights(task):
    U, V, target = task
    n_networks, std = 200, 1e-3
    W1, W2 = std * np.random.default_rng(3).standard_normal((2, n_networks, N, N))
    times = np.linspace(0, 10, 251)
    u = _strengths(U, V, *deep.gradient_flow(W1, W2, target, times, max_step=0.04))
    half = np.array(
        [
            [np.interp(s / 2, course, times) for s, course in zip(STRENGTHS, own.T, strict=True)]
            for own in u.transpose(1, 0, 2)
        ]
    )
    assert np.all(np.diff(half) > 0)
    scaled = STRENGTHS * half
    errors = scaled.std(axis=0, ddof=1) / n_networks**0.5
    expected = [deep.random_scaled_half_time(s, i, N, std) for i, s in enumerate(STRENGTHS)]
    assert np.all(errors < 0.005 * scaled.mean(axis=0))
    assert np.all(np.abs(scaled.mean(axis=0) - expected) < 3 * errors)
