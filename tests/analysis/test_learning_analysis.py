"""Bands, exponentials, criteria, savings and the two-state model, of courses whose numbers are known."""

import jax
import numpy as np
import pytest
from scipy.optimize import curve_fit
from scipy.stats import t

from popsim.analysis import learning

BATCH = np.arange(0, 300, 2)
TAUS = np.array([5.0, 30.0, 120.0])


def courses(taus, asymptote=0.2, amplitude=1.5):
    return asymptote + amplitude * np.exp(-BATCH[:, None] / taus)


def test_the_band_is_that_of_the_logarithms():
    loss = np.exp(np.array([[1.0, 2.0, 3.0, np.nan], [0.0, 0.0, 0.0, 1.0]]))
    found = learning.learning_curve(loss, confidence=0.9)
    reach = t.ppf(0.95, 2) / np.sqrt(3)
    np.testing.assert_allclose(np.log(found.mean), [2.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(np.log([found.low, found.high]), [[2 - reach, 0], [2 + reach, 0]], atol=1e-12)
    assert found.n_members == 3


def test_members_that_failed_are_left_out_of_the_loss():
    loss = np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 2.0], [0.5, 0.0, 1.0]])
    np.testing.assert_array_equal(learning.finite_members(loss), loss[:, [0, 2]])


def test_exponentials_are_recovered_without_noise():
    found = learning.fit_exponential(courses(TAUS), BATCH)
    np.testing.assert_allclose(found.tau, TAUS, rtol=1e-5)
    np.testing.assert_allclose(found.asymptote, 0.2, rtol=1e-5)
    np.testing.assert_allclose(found.amplitude, 1.5, rtol=1e-5)
    assert np.all(found.residual < 1e-6)
    np.testing.assert_allclose(found.at(BATCH), courses(TAUS), atol=1e-5)
    later = learning.fit_exponential(
        courses(TAUS)[10:], BATCH[10:]
    )  # what begins later is the same exponential
    assert (found.first_batch, later.first_batch) == (0.0, 20.0)
    np.testing.assert_allclose(later.amplitude[1:], 1.5 * np.exp(-20 / TAUS[1:]), rtol=1e-4)
    np.testing.assert_allclose(later.at(BATCH), courses(TAUS), rtol=1e-2)


def test_courses_without_an_exponential_have_no_tau():
    values = courses(TAUS)
    values[:, 0] = 3.0
    values[70, 1] = np.nan  # this member failed
    found = learning.fit_exponential(values, BATCH)
    assert (found.asymptote[0], found.amplitude[0], found.residual[0]) == (3.0, 0.0, 0.0)
    assert np.isnan(found.tau[0]) and np.isinf(found.tau_error[0])
    assert np.isnan([own[1] for own in found[:5]]).all()
    np.testing.assert_allclose(found.tau[2], TAUS[2], rtol=1e-5)
    np.testing.assert_allclose(found.at(BATCH)[:, 0], 3.0)
    assert np.isnan(found.at(BATCH)[:, 1]).all()


def exponential(batch, asymptote, amplitude, tau):
    return asymptote + amplitude * np.exp(-batch / tau)


def test_the_error_of_tau_is_that_of_scipy_whatever_the_unit_of_the_loss_is():
    noise = 0.05 * np.random.default_rng(0).normal(size=(BATCH.size, 1))
    values = courses(np.array([500.0])) + noise
    expected, found = learning.fit_exponential(values, BATCH), learning.fit_exponential(1e-9 * values, BATCH)
    (*_, tau), covariance = curve_fit(exponential, BATCH, values[:, 0], p0=(0.2, 1.5, 500.0))
    np.testing.assert_allclose(expected.tau[0], tau, rtol=1e-3)
    np.testing.assert_allclose(expected.tau_error[0], covariance[2, 2] ** 0.5, rtol=1e-3)
    np.testing.assert_allclose(expected.residual, noise.std(), rtol=0.03)
    np.testing.assert_allclose(found.tau_error, expected.tau_error, rtol=1e-3)


def test_the_criterion_must_be_met_for_good():
    loss = np.array([[5.0, 5, 5], [1, 5, 5], [5, 5, 1], [1, 5, 1], [1, 5, 1]])
    batch = np.array([10, 20, 30, 40, 50])
    np.testing.assert_allclose(learning.time_to_criterion(loss, batch, 1.0), [40, np.nan, 30])
    np.testing.assert_allclose(
        learning.time_to_criterion(loss, batch, 3.0, smoothed_over=2), [20, np.nan, 30]
    )
    np.testing.assert_allclose(learning.time_to_criterion(np.full((5, 1), np.nan), batch, 1.0), [np.nan])
    np.testing.assert_allclose(learning.moving_average(loss, 2)[:, 0], [5, 3, 3, 3, 1])
    tau, criterion = TAUS[1], 0.5
    expected = tau * np.log(1.5 / (criterion - 0.2))
    found = learning.time_to_criterion(courses(TAUS), BATCH, criterion)[1]
    assert expected <= found < expected + 2


KEY = jax.random.key(0)


def test_savings_are_paired_over_members():
    first, second = np.array([40.0, 30.0, 50.0, 45.0]), np.array([20.0, 24.0, 25.0, 30.0])
    found = learning.savings_in_rate(courses(first), courses(second), BATCH, confidence=0.9, key=KEY)
    difference = 1 / second - 1 / first
    np.testing.assert_allclose(found.saved, difference, rtol=1e-4)
    reach = t.ppf(0.95, 3) * difference.std(ddof=1) / 2
    mean, compared = difference.mean(), found.comparison
    np.testing.assert_allclose(compared[:3], [mean, mean - reach, mean + reach], rtol=1e-3)
    assert found.n_members == 4 and compared.test.p == 2 / 2**4  # all four of one sign
    sooner = learning.savings_in_time(courses(first), courses(second), BATCH, 0.5, key=KEY)
    np.testing.assert_allclose(sooner.saved, (first - second) * np.log(5), atol=2)
    assert sooner.comparison.difference == sooner.saved.mean() > 0
    none = learning.savings_in_time(courses(first), courses(first), BATCH, 0.5, key=KEY).comparison
    assert (none.difference, none.low, none.high, none.test.p) == (0.0, 0.0, 0.0, 1.0)


def test_a_course_that_crosses_its_criterion_back_is_named():
    first, second = courses(np.array([40.0, 30.0, 50.0])), courses(np.array([20.0, 15.0, 25.0]))
    late = int(np.flatnonzero(first[:, 1] < 0.3)[0])
    second[late : late + 3, 1] = 1.0  # learned sooner, and forgotten for a while
    assert learning.savings_in_rate(first, second, BATCH, key=KEY).saved[1] > 0
    found = learning.savings_in_time(
        first, second, BATCH, 0.5, key=KEY
    )  # without a warning: the mean is positive
    assert found.saved[1] < 0 < found.comparison.difference
    second[-9:-6] = 1.0
    said = "of 0 members in `first` and of 3 in `second`, of 3, .* stay at it -.* first meet it [+]"
    with pytest.warns(UserWarning, match=said):
        found = learning.savings_in_time(first, second, BATCH, 0.5, key=KEY)
    assert (
        found.comparison.difference
        < 0
        < learning.savings_in_rate(first, second, BATCH, key=KEY).comparison.difference
    )


PUBLISHED = (0.59, 0.21, 0.992, 0.02)
FIELD = np.repeat([1.0, -1.0, 0.0], [160, 15, 60])
IS_CLAMP = np.repeat([False, True], [175, 60])


def model(*values):
    return learning.TwoStateParameters(*np.array(values))


def test_the_published_parameters_give_the_known_course():
    """160 trials in a field, 15 in its reverse, 60 error clamps: numbers of an independent prototype."""
    course = learning.simulate_two_states(model(*PUBLISHED), FIELD, IS_CLAMP)
    adaptation = course.adaptation
    np.testing.assert_allclose(adaptation[[159, 175]], [0.7371, -0.1825], atol=5e-5)
    clamped = adaptation[175:]
    assert clamped.argmax() == 9
    np.testing.assert_allclose(clamped.max(), 0.2306, atol=5e-5)
    np.testing.assert_array_equal(adaptation, course.fast + course.slow)


def test_noisy_members_are_fitted_and_their_parameters_found_again():
    rng = np.random.default_rng(0)
    learned = learning.simulate_two_states(model(*PUBLISHED), FIELD, IS_CLAMP).adaptation[:-1]
    measured = learned[:, None] + 0.05 * rng.normal(size=(235, 4))
    fit = learning.fit_two_states(measured, FIELD, IS_CLAMP)
    for found, expected, scatter in zip(fit.parameters, PUBLISHED, (0.035, 0.017, 3e-4, 7e-4), strict=True):
        np.testing.assert_allclose(found.mean(), expected, atol=4 * scatter / 2)
        np.testing.assert_allclose(found, expected, atol=4 * scatter)
    np.testing.assert_allclose(fit.residual, 0.05, rtol=0.15)
    assert np.all(fit.explained > 0.9)


def test_trials_that_were_not_measured_are_left_out():
    two = learning.TwoStateParameters(*np.array([PUBLISHED, (0.8, 0.1, 0.99, 0.05)]).T)
    measured = learning.simulate_two_states(two, FIELD, IS_CLAMP).adaptation[:-1]
    measured[::3] = np.nan
    fit = learning.fit_two_states(measured, FIELD, IS_CLAMP)
    for found, expected in zip(fit.parameters, two, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert np.all(fit.residual < 1e-5)
