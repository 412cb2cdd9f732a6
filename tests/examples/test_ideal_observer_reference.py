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


def test_the_normal_distribution_is_that_of_scipy():
    x = np.linspace(-7, 7, 41)
    np.testing.assert_allclose(ideal_observer.normal_cdf(x), stats.norm.cdf(x), rtol=1e-12)


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


def test_no_other_weighting_of_the_evidence_does_better():
    """A leak forgets early evidence: the slope is sum w / sqrt(sum w²), highest for equal weights."""
    rng = np.random.default_rng(2)
    coherences = np.repeat(COHERENCES, 5000)
    evidence = coherences[:, None] + rng.standard_normal((len(coherences), 25))
    for decay in (0.9, 0.5):
        weights = decay ** np.arange(25)
        expected = weights.sum() / np.sqrt(np.sum(weights**2))
        assert expected < EVIDENCE.slope
        fit = ideal_observer.fit_psychometric(coherences[:, None], evidence @ weights > 0)
        assert abs(fit.slopes[0] - expected) < 3.5 * fit.errors[0]


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


def test_the_error_of_a_slope_that_hardly_any_choice_tells_is_no_smaller_than_it():
    """Such a slope, however large, is within its own error of the ideal one, but not within that one's."""
    coherences = _drawn_coherences(30_000)
    chose_right = np.zeros(30_000, bool)
    chose_right[np.flatnonzero(coherences[:, 0] == 0.5)[:2]] = True
    fit = ideal_observer.fit_psychometric(coherences, chose_right)
    ideal = ideal_observer.standard_errors(coherences, 0.0, np.array([5.0, 0.0]))
    assert fit.slopes[0] - 5.0 > 10 * ideal[0] and fit.errors[0] > fit.slopes[0]


@pytest.mark.parametrize("choice", [True, False])
def test_the_curve_of_choices_that_are_all_the_same_is_flat(choice):
    fit = ideal_observer.fit_psychometric(_drawn_coherences(10), np.full(10, choice))
    assert fit.bias == (np.inf if choice else -np.inf)
    np.testing.assert_array_equal(fit.slopes, 0)
    np.testing.assert_array_equal(fit.errors, np.inf)
