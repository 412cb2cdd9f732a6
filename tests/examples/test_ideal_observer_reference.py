"""The ideal observer and the psychometric fit against simulated choices, other observers, and scipy."""

import numpy as np
import pytest
from scipy import optimize, stats

ideal_observer = pytest.importorskip("references.ideal_observer", reason="examples/ is not beside the tests")

COHERENCES = np.array([-0.5, -0.25, -0.12, -0.06, 0.06, 0.12, 0.25, 0.5])
EVIDENCE = ideal_observer.Evidence(n_steps=25, noise=1.0)


def _drawn_coherences(n_trials, seed=0):
    return np.random.default_rng(seed).choice(COHERENCES, (n_trials, 2))


def test_the_known_values_of_the_task():
    assert EVIDENCE.slope == pytest.approx(5.0)
    assert EVIDENCE.accuracy(COHERENCES) == pytest.approx(0.8079, abs=5e-5)
    assert ideal_observer.Evidence(25, 2.0).slope == pytest.approx(2.5)


@pytest.mark.parametrize("judged", [0, 1])
def test_simulated_choices_are_as_good_and_as_steep_as_expected(judged):
    coherences = _drawn_coherences(100_000)
    chose_right = ideal_observer.simulated_choices(coherences, EVIDENCE, judged, seed=1)
    correct = np.mean(chose_right == (coherences[:, judged] > 0))
    assert abs(correct - EVIDENCE.accuracy(COHERENCES)) < 3 * (0.2 / 1e5) ** 0.5
    for coherence in COHERENCES:
        own = chose_right[coherences[:, judged] == coherence]
        expected = stats.norm.cdf(5 * coherence)
        assert abs(own.mean() - expected) < 4 * (expected * (1 - expected) / len(own)) ** 0.5
    fit = ideal_observer.fit_psychometric(coherences, chose_right)
    assert fit.errors.max() < 0.04 and abs(fit.bias) < 0.02
    assert abs(fit.slopes[judged] - 5.0) < 3.5 * fit.errors[judged]
    assert abs(fit.slopes[1 - judged]) < 3.5 * fit.errors[1 - judged]


def test_the_fit_is_the_maximum_of_the_likelihood_and_its_errors_are_right():
    rng = np.random.default_rng(3)
    coherences = _drawn_coherences(4000, seed=4)
    true = np.array([0.3, 4.0, -1.0])
    p = ideal_observer.psychometric_curve(coherences, true[0], true[1:])
    fits = [ideal_observer.fit_psychometric(coherences, rng.random(4000) < p) for _ in range(60)]
    slopes = np.array([fit.slopes for fit in fits])
    np.testing.assert_allclose(slopes.mean(axis=0), true[1:], atol=4 * slopes.std() / 60**0.5)
    np.testing.assert_allclose(slopes.std(axis=0, ddof=1), fits[0].errors, rtol=0.35)

    chose_right = rng.random(4000) < p
    signs = np.where(chose_right, 1, -1)
    found = optimize.minimize(
        lambda b: -stats.norm.logcdf(signs * (b[0] + coherences @ b[1:])).sum(), np.zeros(3), tol=1e-10
    )
    fit = ideal_observer.fit_psychometric(coherences, chose_right)
    np.testing.assert_allclose([fit.bias, *fit.slopes], found.x, atol=1e-4)
