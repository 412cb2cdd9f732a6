"""Ready-set-go and sine generation: what the output should be at which time."""

import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials

import popsim
from popsim.analysis.behaviour import produced_interval
from popsim.tasks import ReadySetGo, SineGeneration


def test_the_ramp_reaches_one_after_gain_times_the_interval_between_the_pulses(getkey):
    task = ReadySetGo(gain=popsim.distributions.Choice([1.0, 1.5]), duration=2.6)
    trials = many_trials(task, getkey())
    ready, set_, go = (trials.timeline.events[name] for name in ("ready", "set", "go"))
    interval, gain = trials.conditions["interval"], trials.conditions["gain"]
    np.testing.assert_allclose(0.02 * (set_ - ready), interval, rtol=1e-5)
    np.testing.assert_allclose(0.02 * (go - set_), gain * interval, atol=0.011)
    np.testing.assert_allclose(trials.conditions["production"], 0.02 * (go - set_), rtol=1e-5)
    values, counts = trials.targets.values[..., 0], trials.targets.counts
    each = np.arange(2000)
    np.testing.assert_allclose(values[each, go], 1, rtol=1e-5)
    assert np.all(values[each, set_] == 0) and np.all(values[each, set_ + 1] > 0)
    np.testing.assert_allclose(np.diff(values, axis=1)[each, set_ + 3], 1 / (go - set_), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(counts.sum(1), np.floor(set_ + 1.2 * (go - set_) + 1e-4) + 1)
    np.testing.assert_array_equal(trials.inputs["gain"][:, :, 0], np.tile(gain[:, None], 130))
    produced = produced_interval(jnp.asarray(values), jnp.asarray(set_), dt=0.02)
    np.testing.assert_allclose(produced, trials.conditions["production"], atol=1e-4)


def test_intervals_are_drawn_evenly_and_pulses_mark_them(getkey):
    trials = many_trials(ReadySetGo(), getkey())
    interval = trials.conditions["interval"]
    np.testing.assert_allclose([interval.min(), interval.max()], [0.4, 0.8], atol=0.011)
    np.testing.assert_allclose(interval.mean(), 0.6, atol=5 * 0.4 / (12 * 2000) ** 0.5)
    pulses = trials.inputs["pulses"][..., 0]
    np.testing.assert_array_equal(pulses.sum(1), 6)
    each = np.arange(2000)
    for event in ("ready", "set"):
        step = trials.timeline.events[event]
        assert np.all(pulses[each, step - 1] == 0)
        assert all(np.all(pulses[each, step + k] == 1) for k in range(3))


def test_without_set_nothing_is_to_be_produced(getkey):
    trials = many_trials(ReadySetGo(catch_probability=0.3), getkey())
    is_catch = trials.conditions["catch"]
    np.testing.assert_allclose(is_catch.mean(), 0.3, atol=share_error(0.3, 2000))
    assert np.all(trials.targets.values[is_catch] == 0) and np.all(trials.targets.counts[is_catch] == 1)
    np.testing.assert_array_equal(trials.inputs["pulses"].sum((1, 2)), np.where(is_catch, 3, 6))
    np.testing.assert_array_equal(np.isnan(trials.conditions["production"]), is_catch)
    np.testing.assert_array_equal(np.isnan(trials.conditions["interval"]), is_catch)
    assert np.all(trials.timeline.events["go"][is_catch] == popsim.NEVER)


def test_validation_has_all_intervals_with_all_gains():
    conditions = validation_trials(ReadySetGo(gain=popsim.distributions.Choice([1.0, 0.5]))).conditions
    assert conditions["interval"].size == 10
    np.testing.assert_allclose(conditions["interval"][::2], [0.4, 0.5, 0.6, 0.7, 0.8], rtol=1e-5)
    np.testing.assert_allclose(conditions["gain"], [1.0, 0.5] * 5)


def test_the_produced_interval_is_found_between_the_steps_and_may_not_come():
    output = jnp.array([[2.0, 0.0, 0.5, 0.9, 1.3, 0.0], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]])
    produced = produced_interval(output, jnp.array([1, 1]), dt=0.1)
    np.testing.assert_allclose(produced, [0.225, np.inf], rtol=1e-6)
    np.testing.assert_allclose(produced_interval(output, jnp.array([1, 1]), dt=0.1, threshold=0.25)[1], 0.15)
    for already in ([1.2, 1.5, 1.8, 2.0], [2.0, 1.5, 1.2, 1.1], [0.0, 1.5, 0.0, 1.5]):
        assert produced_interval(jnp.array(already), jnp.array(1), dt=0.1) == 0
    with pytest.raises(ValueError, match="`dt`"):
        produced_interval(output, jnp.array([1, 1]), dt=0.0)


def test_the_output_should_be_a_sine_of_the_frequency_that_is_told(getkey):
    trials = many_trials(
        SineGeneration(amplitude=0.5, frequency=popsim.distributions.Uniform(1.0, 3.0)), getkey()
    )
    frequency = trials.conditions["frequency"]
    times = 0.02 * np.arange(1, 101)
    expected = 0.5 * np.sin(2 * np.pi * np.outer(frequency, times))
    np.testing.assert_allclose(trials.targets.values[..., 0], expected, atol=1e-4)
    np.testing.assert_array_equal(trials.inputs["frequency"][..., 0], np.tile(frequency[:, None], 100))
    np.testing.assert_allclose(frequency.mean(), 2, atol=5 * 2 / (12 * 2000) ** 0.5)
    assert frequency.min() >= 1 and frequency.max() <= 3 and np.all(trials.targets.counts == 1)
    validation = validation_trials(SineGeneration()).conditions["frequency"]
    np.testing.assert_allclose(validation, [0.5, 0.75, 1, 1.25, 1.5], rtol=1e-6)
