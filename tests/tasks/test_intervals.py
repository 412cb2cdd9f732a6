"""Intervals that are compared, measured and produced, and the best estimates of them; sines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials

import popsim
from popsim import tasks
from popsim.analysis.behaviour import produced_interval
from popsim.distributions import Uniform


def test_pulses_mark_an_interval_and_the_ramp_reaches_one_after_gain_times_it(getkey):
    task = tasks.ReadySetGo(gain=popsim.distributions.Choice([1.0, 1.5]), duration=2.6)
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
    np.testing.assert_allclose([interval.min(), interval.max()], [0.4, 0.8], atol=0.011)
    np.testing.assert_allclose(interval.mean(), 0.6, atol=5 * 0.4 / (12 * 2000) ** 0.5)
    pulses = trials.inputs["pulses"][..., 0]
    np.testing.assert_array_equal(pulses.sum(1), 6)
    for step in (ready, set_):
        assert np.all(pulses[each, step - 1] == 0)
        assert all(np.all(pulses[each, step + k] == 1) for k in range(3))


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
        tasks.SineGeneration(amplitude=0.5, frequency=popsim.distributions.Uniform(1.0, 3.0)), getkey()
    )
    frequency = trials.conditions["frequency"]
    times = 0.02 * np.arange(1, 101)
    expected = 0.5 * np.sin(2 * np.pi * np.outer(frequency, times))
    np.testing.assert_allclose(trials.targets.values[..., 0], expected, atol=1e-4)
    np.testing.assert_array_equal(trials.inputs["frequency"][..., 0], np.tile(frequency[:, None], 100))
    np.testing.assert_allclose(frequency.mean(), 2, atol=5 * 2 / (12 * 2000) ** 0.5)
    assert frequency.min() >= 1 and frequency.max() <= 3 and np.all(trials.targets.counts == 1)
    validation = validation_trials(tasks.SineGeneration()).conditions["frequency"]
    np.testing.assert_allclose(validation, [0.5, 0.75, 1, 1.25, 1.5], rtol=1e-6)


DT = 0.05


@pytest.mark.parametrize(
    ("task", "start", "n_pulses"),
    [(tasks.CueSetGo(catch_probability=0.2), "set", 1), (tasks.OneTwoThreeGo(), "three", 3)],
)
def test_the_ramp_reaches_one_after_the_interval(task, start, n_pulses, getkey):
    trials = many_trials(task, getkey(), 500)
    begins, interval = trials.timeline.events[start], trials.conditions["interval"]
    comes = ~trials.conditions["catch"]
    values = trials.targets.values[..., 0]
    produced = produced_interval(jnp.asarray(values[comes]), jnp.asarray(begins[comes]), dt=DT)
    np.testing.assert_allclose(produced, interval[comes], atol=1e-3)
    np.testing.assert_allclose(
        DT * (trials.timeline.events["go"] - begins)[comes], interval[comes], atol=1e-3
    )
    counted = np.floor(begins + 1.2 * np.round(interval / DT) + 1e-4) + 1
    np.testing.assert_array_equal(trials.targets.counts.sum(1)[comes], counted[comes])
    assert not values[~comes].any() and np.all(trials.targets.counts[~comes] == 1)
    if start == "three":
        ratios = [trials.conditions[f"{which} shown"] / interval - 1 for which in ("first", "second")]
        rounding = 0.05**2 / 12 * np.mean(interval**-2.0)
        np.testing.assert_allclose(np.std(ratios, axis=1), (0.1**2 + rounding) ** 0.5, rtol=0.1)
    pulses = trials.inputs["set" if start == "set" else "pulses"][..., 0]
    np.testing.assert_allclose(DT * pulses.sum(1)[comes], n_pulses * task.pulse, rtol=1e-5)
    assert np.all(pulses[np.flatnonzero(comes), begins[comes]] == 1) and not pulses[:, 0].any()


def test_the_cue_names_the_interval_until_the_end(getkey):
    task = tasks.CueSetGo(catch_probability=0.3)
    trials = many_trials(task, getkey())
    cue, shown = trials.inputs["cue"][..., 0], trials.timeline.events["cue on"]
    np.testing.assert_array_equal(cue[:, -1], trials.conditions["interval"])
    np.testing.assert_array_equal((cue > 0).sum(1), trials.timeline.n_steps - shown)
    np.testing.assert_allclose(trials.conditions["catch"].mean(), 0.3, atol=share_error(0.3, 2000))
    waited = DT * (trials.timeline.events["set"] - shown)[~trials.conditions["catch"]]
    np.testing.assert_allclose([waited.min(), waited.max()], [1.0, 3.0], atol=0.06)
    np.testing.assert_allclose(validation_trials(task).conditions["interval"], [0.8, 1.5])


PRIOR, WEBER = Uniform(0.6, 1.0), 0.1


@pytest.fixture(scope="module")
def trials():
    task = tasks.ReadySetGo(interval=PRIOR, weber_fraction=WEBER, gain=1.5, duration=3.5)
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
