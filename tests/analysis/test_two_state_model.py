"""The published two-state model of adaptation: known values, closed forms, and parameters found again."""

import numpy as np

from popsim.analysis.learning import TwoStateParameters, fit_two_states, simulate_two_states

PUBLISHED = (0.59, 0.21, 0.992, 0.02)
FIELD = np.repeat([1.0, -1.0, 0.0], [160, 15, 60])
IS_CLAMP = np.repeat([False, True], [175, 60])


def model(*values):
    return TwoStateParameters(*np.array(values))


def test_the_published_parameters_give_the_known_course():
    """160 trials in a field, 15 in its reverse, 60 error clamps: numbers of an independent prototype."""
    course = simulate_two_states(model(*PUBLISHED), FIELD, IS_CLAMP)
    adaptation = course.adaptation
    np.testing.assert_allclose(adaptation[[159, 175]], [0.7371, -0.1825], atol=5e-5)
    clamped = adaptation[175:]
    assert clamped.argmax() == 9
    np.testing.assert_allclose(clamped.max(), 0.2306, atol=5e-5)
    np.testing.assert_array_equal(adaptation, course.fast + course.slow)


def test_without_error_the_states_decay_and_in_a_field_they_come_to_a_balance():
    two = TwoStateParameters(*np.array([PUBLISHED, (0.8, 0.1, 0.99, 0.05)]).T)
    course = simulate_two_states(two, FIELD, IS_CLAMP)
    decay = np.arange(61)[:, None]
    np.testing.assert_allclose(course.slow[175:], course.slow[175] * two.slow_retention**decay)
    np.testing.assert_allclose(course.fast[175:], course.fast[175] * two.fast_retention**decay)
    settled = simulate_two_states(two, np.ones(5000), np.zeros(5000, bool)).adaptation[-1]
    gain = two.fast_learning / (1 - two.fast_retention) + two.slow_learning / (1 - two.slow_retention)
    np.testing.assert_allclose(settled, gain / (1 + gain))


def test_noisy_members_are_fitted_and_their_parameters_found_again():
    rng = np.random.default_rng(0)
    learned = simulate_two_states(model(*PUBLISHED), FIELD, IS_CLAMP).adaptation[:-1]
    measured = learned[:, None] + 0.05 * rng.normal(size=(235, 4))
    fit = fit_two_states(measured, FIELD, IS_CLAMP)
    for found, expected, scatter in zip(fit.parameters, PUBLISHED, (0.035, 0.017, 3e-4, 7e-4), strict=True):
        np.testing.assert_allclose(found.mean(), expected, atol=4 * scatter / 2)
        np.testing.assert_allclose(found, expected, atol=4 * scatter)
    np.testing.assert_allclose(fit.residual, 0.05, rtol=0.15)
    assert np.all(fit.explained > 0.9)


def test_trials_that_were_not_measured_are_left_out():
    two = TwoStateParameters(*np.array([PUBLISHED, (0.8, 0.1, 0.99, 0.05)]).T)
    measured = simulate_two_states(two, FIELD, IS_CLAMP).adaptation[:-1]
    measured[::3] = np.nan
    fit = fit_two_states(measured, FIELD, IS_CLAMP)
    for found, expected in zip(fit.parameters, two, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert np.all(fit.residual < 1e-5)
