"""Speeds and times of minimum-jerk movements, whose course is known."""

import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import trials_with_event

import popsim
from popsim.analysis.behaviour import (
    FixedSpeed,
    FractionOfPeak,
    count_speed_peaks,
    movement_duration,
    movement_offset,
    movement_onset,
    peak_speed,
    reaction_time,
)

DT, DISTANCE, DURATION = 0.01, 0.1, 0.5  # s, m, s


def minimum_jerk(n_steps, begins):
    """The speed 30 d/T s²(1-s)² at times dt, 2 dt, ...; Flash & Hogan 1985."""
    s = np.clip((DT * np.arange(1, n_steps + 1) - begins) / DURATION, 0, 1)
    return DISTANCE / DURATION * 30 * s**2 * (1 - s) ** 2


def share_at(fraction):
    """The part of a movement at which its speed is first this share of the peak: s(1-s) = sqrt(share)/4."""
    return (1 - np.sqrt(1 - np.sqrt(fraction))) / 2


def test_the_peak_is_found_between_the_steps():
    begins = np.array([0.1, 0.1034, 0.1077])
    speed = np.stack([minimum_jerk(80, start) for start in begins])
    found = peak_speed(np.stack([speed, 2 * speed]), dt=DT)
    expected = 1.875 * DISTANCE / DURATION
    np.testing.assert_allclose(found.speed, [[expected] * 3, [2 * expected] * 3], rtol=1e-5)
    np.testing.assert_allclose(found.time, [begins + DURATION / 2] * 2, atol=2e-5)
    assert np.all(speed.max(axis=1)[1:] < expected * (1 - 1e-5))  # at the steps it is lower


@pytest.mark.parametrize(
    ("speed", "height", "time"), [([3, 2, 1], 3, 0.1), ([1, 2, 3], 3, 0.3), ([1, 2], 2, 0.2)]
)
def test_a_peak_at_the_end_is_that_step(speed, height, time):
    found = peak_speed(np.array([speed], float), dt=0.1)
    np.testing.assert_allclose([found.speed[0], found.time[0]], [height, time])


def test_onset_and_offset_are_where_the_course_says():
    begins, fraction = np.array([0.1, 0.155]), 0.05
    speed = jnp.asarray(np.stack([minimum_jerk(80, start) for start in begins]))
    part, threshold = share_at(fraction), FractionOfPeak(fraction)
    np.testing.assert_allclose(movement_onset(speed, threshold, dt=DT), begins + part * DURATION, atol=1e-3)
    offset = movement_offset(speed, threshold, dt=DT)
    np.testing.assert_allclose(offset, begins + (1 - part) * DURATION, atol=1e-3)
    duration = movement_duration(speed, threshold, dt=DT)
    np.testing.assert_allclose(duration, (1 - 2 * part) * DURATION, atol=2e-3)
    fixed = FixedSpeed(fraction * 1.875 * DISTANCE / DURATION)
    np.testing.assert_allclose(movement_onset(speed, fixed, dt=DT), begins + part * DURATION, atol=1e-3)


def test_what_came_long_before_the_movement_is_not_its_onset():
    speed = minimum_jerk(80, 0.2)
    speed[:8] = 0.1  # a twitch, of a quarter of the peak
    onset = movement_onset(speed[None], FractionOfPeak(0.05), dt=DT)
    np.testing.assert_allclose(onset, 0.2 + share_at(0.05) * DURATION, atol=1e-3)


def test_movements_that_do_not_begin_or_end():
    ramp = np.linspace(0.01, 0.2, 20)[None]
    assert np.isnan(movement_offset(ramp, FractionOfPeak(0.5), dt=DT)).all()
    assert np.isnan(movement_onset(ramp, FixedSpeed(0.3), dt=DT)).all()
    assert np.isnan(movement_onset(0 * ramp, FractionOfPeak(0.5), dt=DT)).all()
    np.testing.assert_allclose(movement_onset(ramp[:, 10:], FixedSpeed(ramp[0, 10] / 2), dt=DT), DT / 2)


def test_reaction_times_are_from_the_cue_of_each_trial():
    trials = trials_with_event([20, 30, popsim.NEVER, 45], dt=DT, n_steps=100)
    speed = np.stack([minimum_jerk(100, start) for start in (0.3, 0.4, 0.3, 0.4)])
    speed[0, 0:10] = 1.0  # faster than the movement, but before the cue
    found = reaction_time(np.stack([speed, speed]), trials, "go cue", FractionOfPeak(0.05))
    late = share_at(0.05) * DURATION
    expected = [0.1 + late, 0.1 + late, np.nan, -0.05 + late]
    np.testing.assert_allclose(found, [expected] * 2, atol=1e-3)


def test_speed_peaks_are_counted_if_they_stand_out():
    one, late = minimum_jerk(120, 0.05), minimum_jerk(120, 0.55)
    found = count_speed_peaks(np.stack([one, one + 0.3 * late, one + 0.01 * late, 0 * one]), prominence=0.05)
    np.testing.assert_array_equal(found, [1, 2, 1, 0])
