"""Learning rules against integrated equations, enumeration and simulations."""

import itertools

import numpy as np
import pytest
from scipy import integrate

from references import deep_linear_learning as deep
from references import hopfield, oja
from references import oblique_noise as oblique
from references import perturbation_learning as curves

# Oja


@pytest.fixture
def setting():
    """A correlation matrix with one strong direction, and three starts."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    K = (Q * [3.0, 1.5, 1.0, 0.5]) @ Q.T
    return K, 0.4 * rng.standard_normal((3, 4))


def _integrated(slope, w, times):
    solved = integrate.solve_ivp(
        lambda _, flat: slope(flat.reshape(w.shape)).ravel(),
        times[[0, -1]],
        w.ravel(),
        t_eval=times,
        rtol=1e-10,
        atol=1e-12,
    )
    return solved.y.T.reshape(-1, *w.shape)


def test_the_courses_solve_their_equations(setting):
    K, w0 = setting
    times = np.linspace(0, 4, 9)
    hebb = _integrated(lambda w: w @ K, w0, times)
    np.testing.assert_allclose(oja.hebb_course(K, w0, times), hebb, rtol=1e-8)
    decaying = _integrated(lambda w: w @ K - np.sum(w @ K * w, axis=-1, keepdims=True) * w, w0, times)
    np.testing.assert_allclose(oja.oja_course(K, w0, times), decaying, rtol=0, atol=1e-8)


# Hopfield


def test_the_table_of_loads():
    loads = {0.105: 0.001, 0.138: 0.0036, 0.185: 0.01, 0.37: 0.0501, 0.61: 0.1002}
    for load, wrong in loads.items():
        assert hopfield.wrong_at_load(load) == pytest.approx(wrong, abs=5e-5)


@pytest.mark.parametrize("n_patterns", [2, 3])
def test_the_exact_share_is_that_of_all_networks_there_are(n_patterns):
    n_units = 4
    wrong = []
    for signs in itertools.product([-1, 1], repeat=n_units * n_patterns):
        x = np.array(signs).reshape(n_patterns, n_units)
        weights = hopfield.hebbian_weights(x)
        assert not np.any(np.diag(weights))
        wrong.append(np.mean(x * np.round(n_units * x @ weights) < 0))
    assert np.mean(wrong) == pytest.approx(hopfield.exact_wrong(n_units, n_patterns), abs=1e-12)


# Deep linear learning

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


# Perturbation learning

RULES = ("gradient descent", "node perturbation", "weight perturbation")
SMALL = curves.Setting(n_inputs=5, n_outputs=3)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("relative_rate", [0.5, 1.0])
@pytest.mark.parametrize("sigma", [0.01, 0.6])
def test_simulated_learning_has_the_expected_error(rule, relative_rate, sigma):
    """The larger perturbations make up half of the error, so that c is tested too."""
    setting = curves.Setting(5, 3, sigma)
    optimum = curves.optimal_rate(rule, setting)
    n_steps = round(1.5 / optimum)
    simulated = curves.simulated_errors(rule, relative_rate * optimum, setting, n_steps, 4000, seed=1)
    expected = curves.expected_error(rule, relative_rate * optimum, setting, n_steps)
    for t in np.linspace(0, n_steps, 6).round().astype(int)[1:]:
        standard_error = simulated[:, t].std(ddof=1) / len(simulated) ** 0.5
        assert standard_error < 0.05 * expected[t]
        assert abs(simulated[:, t].mean() - expected[t]) < 3.5 * standard_error
    if sigma > 0.1 and rule != "gradient descent":
        without = curves.expected_error(rule, relative_rate * optimum, SMALL, n_steps)
        assert expected[-1] > 1.5 * without[-1]


# Oblique noise

NOISY = oblique.Setting(leak=0.3, sigma=0.7, n_steps=12, n_skipped=4)


def _output_variance(W, w):
    """The mean over counted steps, by the covariance of all units."""
    A = np.eye(len(w)) + NOISY.leak * (W - np.eye(len(w)))
    covariance, variances = np.zeros_like(A), []
    for _ in range(NOISY.n_steps):
        covariance = A @ covariance @ A.T + 2 * NOISY.leak * NOISY.sigma**2 * np.eye(len(w))
        variances.append(w @ covariance @ w)
    return np.mean(variances[NOISY.n_skipped :])


@pytest.mark.parametrize("y", [1.0, 2.2, 1 / NOISY.leak])
def test_the_output_variance_of_noisy_networks_and_its_gradient(y):
    """The gradient in all entries of W lies along the readout."""
    w = np.random.default_rng(0).standard_normal(4)
    along = np.outer(w, w) / (w @ w)
    W = (1 - y) * along
    assert _output_variance(W, w) == pytest.approx(w @ w * oblique.variance(y, NOISY))
    gradient, step = np.zeros_like(W), 1e-5
    for i, j in np.ndindex(W.shape):
        change = np.zeros_like(W)
        change[i, j] = step
        gradient[i, j] = (_output_variance(W + change, w) - _output_variance(W - change, w)) / (2 * step)
    np.testing.assert_allclose(gradient, -w @ w * oblique.variance_slope(y, NOISY) * along, atol=1e-8)


def test_simulated_noisy_networks_have_the_output_variance():
    """What is orthogonal to the readout, and not read out, changes nothing."""
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    W = Q @ np.diag([-1.2, 0.8, 0.5, -0.4, 0.0]) @ Q.T
    outputs = oblique.simulated_outputs(W, 0.6 * Q[:, 0], NOISY, 20_000, seed=2)
    squared = np.mean(outputs**2, axis=1)
    error = squared.std(ddof=1) / len(squared) ** 0.5
    assert error < 0.01 * squared.mean()
    assert abs(squared.mean() - 0.6**2 * oblique.variance(2.2, NOISY)) < 3.5 * error


def test_the_course_of_small_steps_is_that_of_continuous_time():
    small = oblique.Setting(leak=0.02, sigma=0.5, n_steps=500, n_skipped=400)
    expected, continuous = (
        course(0.05, 1.5, small, 200) for course in (oblique.expected_course, oblique.continuous_course)
    )
    assert continuous[-1] > 2.5
    np.testing.assert_allclose(expected, continuous, rtol=5e-3)
