"""Ready-set-go with intervals that are shown with noise, and the best estimate of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials

from popsim.distributions import Choice, Constant, Uniform
from popsim.tasks import ReadySetGo, bayes_least_squares

PRIOR, WEBER = Uniform(0.6, 1.0), 0.1


@pytest.fixture(scope="module")
def trials():
    task = ReadySetGo(interval=PRIOR, weber_fraction=WEBER, gain=1.5, duration=3.5)
    return many_trials(task, jax.random.key(3))


def test_what_is_shown_is_the_measurement_and_what_is_asked_for_the_interval(trials):
    conditions, events = trials.conditions, trials.timeline.events
    measured, interval = conditions["measured"], conditions["interval"]
    np.testing.assert_allclose(0.02 * (events["set"] - events["ready"]), measured, rtol=1e-5)
    np.testing.assert_allclose(0.02 * (events["go"] - events["set"]), 1.5 * interval, atol=0.0101)
    deviations = (measured - interval) / interval
    np.testing.assert_allclose(deviations.std(), WEBER, rtol=0.06)
    np.testing.assert_allclose(deviations.mean(), 0, atol=5 * WEBER / 2000**0.5)
    assert np.abs(deviations).max() < 3.6 * WEBER
    assert np.abs(np.corrcoef(deviations, interval)[0, 1]) < 0.12
    np.testing.assert_allclose([interval.min(), interval.max()], [0.6, 1.0], atol=0.0201)
    np.testing.assert_allclose(interval.mean(), 0.8, atol=5 * 0.4 / (12 * 2000) ** 0.5)


def test_the_best_estimate_is_better_than_the_measurement_and_the_mean_by_what_theory_says(trials):
    measured, interval = trials.conditions["measured"], trials.conditions["interval"]
    estimate = np.asarray(bayes_least_squares(jnp.asarray(measured), PRIOR, WEBER))

    def error(of):
        return np.mean((of - interval) ** 2) ** 0.5

    assert error(estimate) < 0.9 * min(error(measured), error(np.full_like(interval, 0.8)))
    times = np.linspace(0.6, 1.0, 401)
    noise = np.linspace(-5, 5, 401)
    density = np.exp(-(noise**2) / 2) / np.exp(-(noise**2) / 2).sum()
    shown = times[:, None] * (1 + WEBER * noise)
    squares = (np.asarray(bayes_least_squares(jnp.asarray(shown), PRIOR, WEBER)) - times[:, None]) ** 2
    np.testing.assert_allclose(error(estimate), (squares @ density).mean() ** 0.5, rtol=0.06)


def test_the_estimate_of_a_choice_and_of_a_constant():
    measured = jnp.array([0.5, 0.8, 1.2])
    np.testing.assert_allclose(bayes_least_squares(measured, Constant(0.7), WEBER), 0.7, rtol=1e-6)
    likelihood = [np.exp(-(((measured - t) / (WEBER * t)) ** 2) / 2) / t for t in (0.6, 0.9)]
    expected = (0.6 * likelihood[0] + 0.9 * likelihood[1]) / (likelihood[0] + likelihood[1])
    np.testing.assert_allclose(bayes_least_squares(measured, Choice([0.6, 0.9]), WEBER), expected, rtol=1e-4)
    unsure = bayes_least_squares(measured, Uniform(0.4, 1.4), 0.05)  # m (1 + 2 w²), far from the ends
    np.testing.assert_allclose(unsure[1], 0.8 * (1 + 2 * 0.05**2), rtol=1e-3)
