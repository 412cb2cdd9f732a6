"""When interventions act, and cursors that are not where the hand is."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop

import popsim
from popsim import SensoryChannel
from popsim.distributions import Uniform
from popsim.interventions import (
    CurlField,
    CursorGain,
    CursorRotation,
    CursorShift,
    InterventionPlan,
    InterventionSchedule,
)

LATE = np.arange(12) >= 6


class Kick(popsim.interventions.AbstractIntervention):
    """Adds a force on the hand."""

    name: str = eqx.field(static=True, default="kick")
    after_stage: str = eqx.field(static=True, default="act")

    def apply(self, parameters, state, *, key):
        return dataclasses.replace(state, external_force=state.external_force + parameters)


class Set(popsim.interventions.AbstractIntervention):
    """Sets a part of the state."""

    name: str = eqx.field(static=True)
    after_stage: str = eqx.field(static=True)
    where: Callable = eqx.field(static=True)

    def apply(self, parameters, state, *, key):
        return eqx.tree_at(self.where, state, parameters)


class Idle(popsim.interventions.AbstractIntervention):
    """Does nothing."""

    name: str = eqx.field(static=True, default="idle")
    after_stage: str = eqx.field(static=True, default="act")


class Late(CurlField):
    after_stage: str = eqx.field(static=True, default="move")


def schedule(parameters, active):
    return InterventionSchedule(jnp.asarray(parameters), jnp.asarray(active))


def test_an_intervention_acts_right_after_the_stage_that_it_follows(getkey):
    """So each of these is used by the next stage, and overwrites what its own stage has made."""
    interventions = (
        Set("blind", "sense", lambda state: state.feedback["vision"]),
        Set("paralyse", "act", lambda state: state.command),
        Set("shift", "move", lambda state: state.cursor.position),
        Set("shift again", "move", lambda state: state.cursor.position),
    )
    values = {
        "blind": [1.0, 2.0, 3.0, 4.0],
        "paralyse": [5.0, 6.0],
        "shift": [7.0, 7.0],
        "shift again": [8.0, 9.0],
    }
    trial = reach(
        3, interventions={name: schedule(value, np.ones(3, bool)) for name, value in values.items()}
    )
    model = relay_loop({"vision": SensoryChannel(popsim.vision)}, interventions=interventions)
    states = popsim.simulate(model, trial, key=getkey())
    np.testing.assert_array_equal(states.network.hidden[:, 2:], np.tile(values["blind"], (3, 1)))
    np.testing.assert_array_equal(states.command, np.tile(values["paralyse"], (3, 1)))
    np.testing.assert_array_equal(states.cursor.position, np.tile(values["shift again"], (3, 1)))
    np.testing.assert_allclose(states.hand.velocity[-1], [0.15, 0.18], rtol=1e-6)


@pytest.mark.parametrize(
    ("interventions", "message"),
    [
        ((Set("x", "thinks", lambda state: state.command),), "`after_stage`"),
        ((Late(),), "`after_stage`"),
        ((CurlField(), CurlField()), "`interventions`"),
        ((Idle(),), "'idle' must implement `apply` or `load`"),
    ],
)
def test_interventions_that_could_not_act_are_refused(interventions, message):
    with pytest.raises(ValueError, match=message):
        relay_loop({}, interventions=interventions)
    with pytest.raises(ValueError, match="plane"):
        CurlField().load(jnp.array(1.0)).hand_force(popsim.HandState(jnp.zeros(3), jnp.zeros(3)))


def test_stacked_trials_are_scheduled(getkey):
    """For all trials, for time steps or for each trial; the force is there at these steps alone."""
    task = popsim.tasks.CenterOutReaches(popsim.plants.PointMass().workspace, duration=0.12)
    trials, loop = task.validation_trials(), relay_loop({}, interventions=(Kick(),))
    for active in (True, LATE, LATE & (np.arange(8) % 2 == 0)[:, None]):
        pushed = popsim.interventions.schedule_intervention(trials, "kick", [1.0, 0.0], active)
        states = popsim.evaluate(loop, task, trials=pushed, key=getkey()).states
        np.testing.assert_array_equal(states.external_force[..., 0], np.broadcast_to(active, (8, 12)))


@pytest.mark.parametrize("delay, steps", [(0.02, [5, 6, 7]), (-0.02, [1, 2, 3]), (0.08, [11])])
def test_a_plan_shifts_its_window_by_its_delay(delay, steps, getkey):
    window = popsim.windows.Between(0.03, 0.06)
    plan = InterventionPlan("kick", [1.0, 0.0], window=window, delay=delay)
    active = plan.schedule(reach(), batch=0, key=getkey()).interventions["kick"].active
    assert np.flatnonzero(active).tolist() == steps


def test_drawn_delays_are_rounded_to_steps(getkey):
    window = popsim.windows.Between(0.01, 0.02)
    plan = InterventionPlan("kick", [1.0, 0.0], window=window, delay=Uniform(0.0, 0.1))
    schedule = jax.jit(jax.vmap(lambda key: plan.schedule(reach(), batch=0, key=key).interventions["kick"]))
    active = schedule(jax.random.split(getkey(), 200)).active
    assert np.all(active.sum(axis=1) == 1)
    assert np.flatnonzero(active.any(axis=0)).tolist() == list(range(1, 12))


START, PLACE = np.array([0.02, 0.03], np.float32), np.array([0.1, -0.2])
ANGLE, SHIFT = np.pi / 6, np.array([0.01, -0.02])
MOVED = [CursorRotation(), CursorRotation(PLACE, name="turn"), CursorGain(PLACE), CursorShift()]
PARAMETERS = [ANGLE, ANGLE, 1.5, SHIFT]
ROWS = ["cursor rotation", "turn", "cursor gain", "cursor shift", "cursor rotation, cursor shift"]


@functools.cache
def runs():
    """A mass pushed by a relay that sees its cursor at once, under what acts in each row; last, one late."""
    channels = {name: SensoryChannel(getattr(popsim, name)) for name in ("vision", "proprioception")}
    loop = relay_loop(channels, interventions=tuple(MOVED))
    acting = [[np.full(12, own.name in row.split(", ")) for own in MOVED] for row in ROWS]
    acting.append([np.full(12, own.name == "cursor shift") & LATE for own in MOVED])

    def run(active):
        schedules = {
            own.name: InterventionSchedule(jnp.asarray(parameters, float), when)
            for own, parameters, when in zip(MOVED, PARAMETERS, active, strict=True)
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
