"""Cursors that are not where the hand is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop

import popsim
from popsim import SensoryChannel
from popsim.interventions import CursorGain, CursorRotation, CursorShift, InterventionSchedule

START, PLACE = np.array([0.02, 0.03], np.float32), np.array([0.1, -0.2])
ANGLE, SHIFT = np.pi / 6, np.array([0.01, -0.02])
HELD = [CursorRotation(), CursorRotation(PLACE, name="turn"), CursorGain(PLACE), CursorShift()]
PARAMETERS = [ANGLE, ANGLE, 1.5, SHIFT]
LATE = np.arange(12) >= 6
ROWS = ["cursor rotation", "turn", "cursor gain", "cursor shift", "cursor rotation, cursor shift"]


@functools.cache
def runs():
    """A mass pushed by a relay that sees its cursor at once, under what acts in each row; last, one late."""
    channels = {name: SensoryChannel(getattr(popsim, name)) for name in ("vision", "proprioception")}
    loop = relay_loop(channels, interventions=tuple(HELD))
    acting = [[np.full(12, own.name in row.split(", ")) for own in HELD] for row in ROWS]
    acting.append([np.full(12, own.name == "cursor shift") & LATE for own in HELD])

    def run(active):
        schedules = {
            own.name: InterventionSchedule(jnp.asarray(parameters, float), when)
            for own, parameters, when in zip(HELD, PARAMETERS, active, strict=True)
        }
        return popsim.simulate(loop, reach(start=START, interventions=schedules), key=jax.random.key(0))

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(jnp.asarray(acting)))


def row(index):
    return jax.tree.map(lambda leaf: leaf[index], runs())


def rotated(vectors):
    matrix = np.array([[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]])
    return vectors @ matrix.T


EXPECTED = {  # of the hand's position and velocity; turns are counter-clockwise, by default about the start
    "a rotation": lambda x, v: (START + rotated(x - START), rotated(v)),
    "a rotation about a place": lambda x, v: (PLACE + rotated(x - PLACE), rotated(v)),
    "a gain": lambda x, v: (PLACE + 1.5 * (x - PLACE), 1.5 * v),
    "a shift": lambda x, v: (x + SHIFT, v),
    "a rotation, then a shift": lambda x, v: (START + rotated(x - START) + SHIFT, rotated(v)),
    "a late shift": lambda x, v: (x + LATE[:, None] * SHIFT, v),
}


@pytest.mark.parametrize("index", range(6), ids=EXPECTED)
def test_a_cursor_is_where_it_is_put_in_the_order_of_the_model_and_at_the_hand_before(index):
    states = row(index)
    position, velocity = list(EXPECTED.values())[index](states.hand.position, states.hand.velocity)
    np.testing.assert_allclose(states.cursor.position, position, atol=1e-6)
    np.testing.assert_allclose(states.cursor.velocity, velocity, atol=1e-6)
    assert np.all(np.abs(states.hand.velocity) > 1e-3)


def test_vision_senses_the_cursor_and_proprioception_the_body():
    states = row(0)
    for name, seen in (("vision", states.cursor), ("proprioception", states.hand)):
        expected = np.concatenate([seen.position, seen.velocity], axis=1)[:-1]
        np.testing.assert_array_equal(states.feedback[name][1:], expected)


def test_a_center_elsewhere_than_in_the_plane_is_refused(as_users_run, getkey):
    loop = relay_loop({}, interventions=(CursorGain([0.0, 0.0, 0.0]),))
    schedule = {"cursor gain": InterventionSchedule(jnp.array(1.0), jnp.ones(12, bool))}
    with pytest.raises(ValueError, match=r"`center` of .* \(2,\), got \(3,\)"):
        popsim.simulate(loop, reach(interventions=schedule), key=getkey())
