"""Analyses in windows and from events of stacked trials."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import trials_with_event

import popsim
from popsim.analysis import (
    align_to_event,
    last_value_in_window,
    mask_outside_window,
    mean_in_window,
    time_from_event,
    window_mask,
)


@functools.cache
def a_few_trials():
    """Three trials of six steps of .1 s, whose go cue comes at step 2, at step 4, and never."""
    return trials_with_event([2, 4, popsim.NEVER])


def a_course(*leading):
    """At each step its number, plus ten times that of the trial."""
    values = np.arange(6.0, dtype=np.float32) + 10 * np.arange(3, dtype=np.float32)[:, None]
    return jnp.asarray(np.broadcast_to(values, (*leading, 3, 6)))


def test_each_trial_has_its_own_window():
    mask = window_mask(a_few_trials(), popsim.windows.FromEvent("go cue", duration=0.2))
    np.testing.assert_array_equal(mask, [[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [0] * 6])
    no_events = window_mask(a_few_trials(), popsim.windows.Between(0.1, 0.3))
    np.testing.assert_array_equal(no_events, [[0, 1, 1, 0, 0, 0]] * 3)
    with pytest.raises(ValueError, match=r"\['go cue'\], got 'stop'"):
        window_mask(a_few_trials(), popsim.windows.FromEvent("stop"))


def test_values_mean_and_last_value_in_a_window():
    trials, window, values = a_few_trials(), popsim.windows.FromEvent("go cue"), a_course(2)
    nan = np.nan
    kept = mask_outside_window(values, trials, window)
    assert kept.shape == (2, 3, 6)
    np.testing.assert_array_equal(kept[1], [[nan, nan, 2, 3, 4, 5], [nan] * 4 + [14, 15], [nan] * 6])
    np.testing.assert_allclose(mean_in_window(values, trials, window), [[3.5, 14.5, nan]] * 2)
    before = popsim.windows.Before("go cue")
    np.testing.assert_allclose(last_value_in_window(values, trials, before), [[1, 13, 25]] * 2)
    np.testing.assert_allclose(last_value_in_window(values, trials, window), [[5, 15, nan]] * 2)


@pytest.mark.parametrize("time_axis", [-2, 2])
def test_features_may_follow_time(time_axis):
    trials, window = a_few_trials(), popsim.windows.FromEvent("go cue")
    values = jnp.asarray(np.stack([a_course(2), -np.asarray(a_course(2))], axis=-1))
    for function in (mask_outside_window, mean_in_window, last_value_in_window):
        both = function(values, trials, window, time_axis=time_axis)
        alone = np.asarray(function(a_course(2), trials, window))
        np.testing.assert_array_equal(both, np.stack([alone, -alone], axis=-1))
    both = align_to_event(values, trials, "go cue", before=0.1, after=0.3, time_axis=time_axis)
    assert both.shape == (2, 3, 4, 2)
    alone = np.asarray(align_to_event(a_course(2), trials, "go cue", before=0.1, after=0.3))
    np.testing.assert_array_equal(both, np.stack([alone, -alone], axis=-1))


def test_courses_are_aligned_to_the_step_of_the_event():
    trials, nan = a_few_trials(), np.nan
    found = align_to_event(a_course(), trials, "go cue", before=0.3, after=0.3)
    np.testing.assert_array_equal(found, [[nan, 0, 1, 2, 3, 4], [11, 12, 13, 14, 15, nan], [nan] * 6])
    since = time_from_event(trials, "go cue")
    np.testing.assert_allclose(since[1], [-0.4, -0.3, -0.2, -0.1, 0.0, 0.1], rtol=1e-6)
    assert np.isnan(since[2]).all()
    aligned = align_to_event(since, trials, "go cue", before=0.2, after=0.2)
    np.testing.assert_allclose(aligned[:2], [[-0.2, -0.1, 0.0, 0.1]] * 2, rtol=1e-6)


def test_it_can_be_compiled_and_differentiated():
    trials, window = a_few_trials(), popsim.windows.FromEvent("go cue")

    def total(values):
        return jnp.nansum(mean_in_window(values, trials, window))

    slope = jax.jit(jax.grad(total))(a_course())
    np.testing.assert_allclose(slope, [[0, 0, 0.25, 0.25, 0.25, 0.25], [0] * 4 + [0.5, 0.5], [0] * 6])
