"""The closed courses of Hebb's and Oja's rules against the integrated equations, and simulations."""

import numpy as np
import pytest
from scipy import integrate

oja = pytest.importorskip("references.oja", reason="examples/ is not beside the tests")


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


@pytest.mark.parametrize("decay", [True, False])
def test_simulations_approach_the_courses(setting, decay):
    """The mean over many runs is as far away as the finite rate makes it, to first order."""
    K, w0 = setting
    n_runs, duration = 400, 1.0
    course = oja.oja_course if decay else oja.hebb_course
    expected = course(K, w0[0], np.array([0.0, duration]))[-1]
    errors = []
    for rate in (0.02, 0.01):
        starts = np.tile(w0[0], (n_runs, 1))
        path = oja.simulated_courses(K, starts, rate, round(duration / rate), 64, decay, seed=1)
        errors.append(np.linalg.norm(path[-1].mean(axis=0) - expected) / np.linalg.norm(expected))
    assert errors[0] < 0.1 and errors[1] < 0.6 * errors[0]
