"""Cursors that are not where the hand is."""

import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop

import popsim
from popsim import SensoryChannel
from popsim.interventions import CursorGain, CursorRotation, CursorShift, InterventionSchedule

START = np.array([0.02, 0.03], np.float32)


def run(held, parameters, getkey, active=None):
    """A mass pushed by a relay, that sees its cursor at once."""
    when = jnp.ones(12, bool) if active is None else jnp.asarray(active)
    schedules = {
        intervention.name: InterventionSchedule(jnp.asarray(values), when)
        for intervention, values in zip(held, parameters, strict=True)
    }
    channels = {
        "vision": SensoryChannel(popsim.vision),
        "proprioception": SensoryChannel(popsim.proprioception),
    }
    trial = reach(start=START, interventions=schedules)
    return popsim.simulate(relay_loop(channels, interventions=held), trial, key=getkey())


def rotated(vectors, angle):
    matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.asarray(vectors) @ matrix.T


@pytest.mark.parametrize("center", [None, [0.1, -0.2]])
def test_a_rotation_turns_position_and_velocity_about_a_place(getkey, center):
    """By default where the trial starts; counter-clockwise."""
    states = run((CursorRotation(center),), (np.pi / 6,), getkey)
    place = START if center is None else np.array(center)
    expected = place + rotated(states.hand.position - place, np.pi / 6)
    np.testing.assert_allclose(states.cursor.position, expected, atol=1e-6)
    np.testing.assert_allclose(states.cursor.velocity, rotated(states.hand.velocity, np.pi / 6), atol=1e-6)
    assert np.all(np.abs(states.hand.velocity) > 1e-3)


def test_a_gain_multiplies_the_way_from_a_place_and_the_velocity(getkey):
    place = np.array([0.1, -0.2])
    states = run((CursorGain(place),), (1.5,), getkey)
    np.testing.assert_allclose(
        states.cursor.position, place + 1.5 * (states.hand.position - place), atol=1e-6
    )
    np.testing.assert_allclose(states.cursor.velocity, 1.5 * states.hand.velocity, rtol=1e-6)


def test_a_shift_moves_the_cursor(getkey):
    states = run((CursorShift(),), ([0.01, -0.02],), getkey)
    moved = states.hand.position + np.array([0.01, -0.02])
    np.testing.assert_allclose(states.cursor.position, moved, atol=1e-7)
    np.testing.assert_array_equal(states.cursor.velocity, states.hand.velocity)


def test_vision_senses_the_cursor_and_proprioception_the_body(getkey):
    states = run((CursorRotation(),), (0.5,), getkey)
    for name, seen in (("vision", states.cursor), ("proprioception", states.hand)):
        expected = np.concatenate([seen.position, seen.velocity], axis=1)[:-1]
        np.testing.assert_array_equal(states.feedback[name][1:], expected)
    assert np.any(states.cursor.position != states.hand.position)


def test_the_cursor_is_at_the_hand_where_nothing_acts(getkey):
    late = np.arange(12) >= 6
    states = run((CursorShift(),), ([0.01, -0.02],), getkey, late)
    at_hand = np.all(states.cursor.position == states.hand.position, axis=1)
    np.testing.assert_array_equal(at_hand, ~late)


def test_what_is_done_to_a_cursor_is_done_in_the_order_of_the_model(getkey):
    """Here first turned, then shifted; the other way round the shift is turned too."""
    angle, shift = np.pi / 2, np.array([0.01, 0.0])
    turned_first = run((CursorRotation(), CursorShift()), (angle, shift), getkey)
    shifted_first = run((CursorShift(), CursorRotation()), (shift, angle), getkey)
    difference = turned_first.cursor.position - shifted_first.cursor.position
    np.testing.assert_allclose(difference, np.tile(shift - rotated(shift, angle), (12, 1)), atol=1e-6)


def test_a_center_elsewhere_than_in_the_plane_is_refused(as_users_run, getkey):
    with pytest.raises(ValueError, match=r"`center` of .* \(2,\), got \(3,\)"):
        run((CursorGain([0.0, 0.0, 0.0]),), (1.0,), getkey)
    with pytest.raises(ValueError, match="`center`.*finite"):
        CursorRotation([np.nan, 0.0])
