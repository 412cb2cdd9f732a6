"""Curves fitted to choices of observers whose curves are known."""

import numpy as np
import pytest
from scipy.stats import norm
from short_form import mostly_in_full

from popsim.analysis import behaviour

LEVELS = np.array([-0.5, -0.25, -0.12, -0.06, 0.06, 0.12, 0.25, 0.5])
BIASES, SLOPES = np.array([0.0, 0.4, -0.2]), np.array([[5.0, 0.0], [3.0, 1.0], [8.0, -0.5]])


def drawn(n_trials, lapse=0.0):
    """Coherences of two streams, and the choices of three observers."""
    rng = np.random.default_rng(1)
    coherences = rng.choice(LEVELS, size=(n_trials, 2))
    right = lapse / 2 + (1 - lapse) * norm.cdf(BIASES[:, None] + SLOPES @ coherences.T)
    return coherences, rng.random((3, n_trials)) < right


def within(found, expected, errors, largest=3.0):
    return np.all(np.abs(found - expected) < largest * errors)


def test_it_is_the_probit_regression_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    coherences, chose_right = drawn(500)
    fit = behaviour.fit_psychometric(coherences, chose_right)
    binomial = sm.families.Binomial(sm.families.links.Probit())
    for member in range(3):
        design = sm.add_constant(coherences)
        other = sm.GLM(chose_right[member].astype(float), design, family=binomial).fit(tol=1e-12)
        found = [fit.bias[member], *fit.slopes[member]]
        np.testing.assert_allclose(found, other.params, atol=1e-6)
        errors = [fit.bias_error[member], *fit.slope_errors[member]]
        np.testing.assert_allclose(errors, other.bse, rtol=1e-5)
    expected = norm.cdf(fit.bias[:, None] + fit.slopes @ coherences[:5].T)
    np.testing.assert_allclose(fit.share_right(coherences[:5]), expected)


def test_lapses_flatten_a_curve_that_does_not_allow_for_them():
    coherences, chose_right = drawn(20_000, lapse=0.1)
    fit = behaviour.fit_psychometric_with_lapses(coherences, chose_right)
    assert within(fit.lapse, 0.1, fit.lapse_error) and np.all(fit.lapse_error < 0.02)
    assert within(fit.curve.slopes, SLOPES, fit.curve.slope_errors)
    without = behaviour.fit_psychometric(coherences, chose_right)
    assert np.all(without.slopes[:, 0] < 0.85 * SLOPES[:, 0])
    strong = np.array([[5.0, 0.0]])
    np.testing.assert_allclose(fit.share_right(strong)[:, 0], 1 - fit.lapse / 2, atol=1e-6)


def test_choices_that_never_differ_and_choices_that_are_foretold():
    coherences = np.repeat(LEVELS, 5)[:, None]
    chose_right = np.stack([np.ones(40, bool), np.zeros(40, bool), coherences[:, 0] > 0])
    fit = behaviour.fit_psychometric(coherences, chose_right)
    np.testing.assert_array_equal(fit.bias, [np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(fit.slopes[:, 0], [0.0, 0.0, np.nan])
    assert np.isinf(fit.slope_errors).all()


def choices_of(slope, levels, n_trials, lapse=0.0):
    """Coherences of one stream, and the choices of one observer."""
    rng = np.random.default_rng(1)
    coherence = rng.choice(levels, size=n_trials)
    right = lapse / 2 + (1 - lapse) * norm.cdf(slope * coherence)
    return coherence[:, None], rng.random(n_trials) < right


@pytest.mark.parametrize("unit", mostly_in_full([1e-3, 100.0, 1000.0, 1e6], [100.0]))
def test_the_unit_of_the_coherence_does_not_matter(unit):
    coherences, chose_right = choices_of(8.0, 1.024 * LEVELS, 2000, lapse=0.1)
    expected = behaviour.fit_psychometric(coherences, chose_right)
    found = behaviour.fit_psychometric(unit * coherences, chose_right)
    np.testing.assert_allclose(found.slopes * unit, expected.slopes, 1e-6)
    np.testing.assert_allclose(found.slope_errors * unit, expected.slope_errors, 1e-6)
    expected = behaviour.fit_psychometric_with_lapses(coherences, chose_right)
    found = behaviour.fit_psychometric_with_lapses(unit * coherences, chose_right)
    np.testing.assert_allclose(found.curve.slopes * unit, expected.curve.slopes, 1e-5)
    np.testing.assert_allclose(found.lapse_error, expected.lapse_error, 1e-5)
    assert within(expected.curve.slopes, 8.0, expected.curve.slope_errors)


def test_the_share_of_each_coherence():
    coherence = np.array([0.5, -0.5, 0.5, 0.0, 0.5])
    chose_right = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 0, 1]], bool)
    found = behaviour.choice_fractions(coherence, chose_right)
    np.testing.assert_array_equal(found.coherence, [-0.5, 0.0, 0.5])
    np.testing.assert_allclose(found.fraction, [[0, 1, 2 / 3], [1, 0, 1]])
    np.testing.assert_array_equal(found.n_trials, [1, 1, 3])


def test_ramps_cross_the_threshold_when_they_must():
    dt, rates = 0.01, np.array([2.0, -1.0, 0.1])  # per s, from 0.2 s on
    time = dt * np.arange(100)
    output = np.stack([np.maximum(time - 0.2, 0) * rates[:, None]] * 2)
    output = output[..., 1:]  # row t is at time (t + 1) dt
    found = behaviour.decision_time(output, np.array([20, 20, 20]), dt=dt, threshold=0.5)
    np.testing.assert_allclose(found, [[0.25, 0.5, np.nan]] * 2, atol=1e-9)


def test_a_decision_that_is_there_at_once_takes_one_step():
    falling = np.linspace(2.0, 0.0, 50)
    for output in (falling, falling[::-1] + 1, -falling):
        found = behaviour.decision_time(output[None], np.array([5]), dt=0.01, threshold=0.5)
        np.testing.assert_allclose(found, 0.01)


def test_a_chronometric_curve_is_of_the_decided_trials():
    coherence = np.array([0.1, 0.5, 0.1, 0.5, 0.1, -0.1])
    times = np.array([[0.5, 0.2, 0.7, 0.2, np.nan, np.nan]])
    found = behaviour.chronometric_curve(coherence, times)
    np.testing.assert_array_equal(found.coherence, [-0.1, 0.1, 0.5])
    np.testing.assert_allclose(found.mean, [[np.nan, 0.6, 0.2]])
    np.testing.assert_allclose(found.standard_error, [[np.nan, 0.1, 0.0]], atol=1e-12)
    np.testing.assert_allclose(found.share_decided, [[0, 2 / 3, 1]])


def test_coherences_may_differ_in_all_trials():
    coherence = np.linspace(-1, 1, 300_000)  # with a matrix of trials by coherences, 720 GB
    curve = behaviour.chronometric_curve(coherence, abs(coherence))
    np.testing.assert_array_equal(curve.mean, abs(coherence))
    np.testing.assert_array_equal(
        behaviour.choice_fractions(coherence, coherence > 0).fraction, coherence > 0
    )
