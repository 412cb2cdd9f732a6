"""Protocols of adaptation, and force channels."""

import jax.numpy as jnp
import numpy as np
from motor_trials import WORKSPACE, assert_share, many_trials, steps_from

import popsim
from popsim import tasks
from popsim.schedules import LAST_BATCH

PHASES = (("baseline", 3, 0.0), ("field", 4, 1.0), ("washout", 3, 0.0), ("opposite", 3, -1.0))
BATCHES = range(14)


def strengths(plan):
    return [float(plan.parameters(batch)) for batch in BATCHES]


def shares(plan):
    return [float(plan.probability(batch)) for batch in BATCHES]


def test_phases_begin_where_the_ones_before_them_end():
    assert tasks.phase_batches(PHASES) == {
        "baseline": (0, 3),
        "field": (3, 7),
        "washout": (7, 10),
        "opposite": (10, 13),
    }
    assert tasks.phase_batches()["field again"] == (800, 1300)
    assert [name for name, _, _ in tasks.ADAPTATION_PHASES] == ["baseline", "field", "washout", "field again"]


def test_an_abrupt_field_comes_and_goes_at_once_with_catch_trials():
    plan = tasks.adaptation_plan("curl field", 5.0, PHASES, catch_share=0.25)
    assert strengths(plan) == [0.0] * 3 + [5.0] * 4 + [0.0] * 3 + [-5.0] * 4
    assert shares(plan) == [0.0] * 3 + [0.75] * 4 + [0.0] * 3 + [0.75] * 4
    assert float(plan.parameters(LAST_BATCH)) == -5.0


def test_a_gradual_field_acts_while_it_comes_and_while_it_goes():
    plan = tasks.adaptation_plan("curl field", 6.0, PHASES, ramp=3)
    np.testing.assert_allclose(strengths(plan), [0, 0, 0, 2, 4, 6, 6, 4, 2, 0, -2, -4, -6, -6], atol=1e-5)
    assert shares(plan) == [0.0] * 3 + [1.0] * 6 + [0.0] + [1.0] * 4


def test_a_gain_goes_from_the_one_that_does_nothing():
    plan = tasks.adaptation_plan("cursor gain", 1.5, PHASES, ramp=2, null=1.0)
    np.testing.assert_allclose(strengths(plan)[2:8], [1.0, 1.25, 1.5, 1.5, 1.5, 1.25])


def test_only_what_differs_from_the_null_parameters_is_graded():
    spring, place = 100 * jnp.eye(2), jnp.array([0.1, 0.2])
    full = popsim.interventions.ElasticFieldParameters(spring, place)
    null = popsim.interventions.ElasticFieldParameters(0 * spring, place)
    parameters = tasks.adaptation_plan("elastic field", full, PHASES, ramp=2, null=null).parameters
    np.testing.assert_allclose(parameters.stiffness(3), 50 * np.eye(2))
    for batch in BATCHES:
        np.testing.assert_allclose(parameters.center(batch), place)


def test_members_may_meet_fields_of_their_own_with_catch_trials_of_their_own():
    plan = tasks.adaptation_plan(
        "curl field", popsim.PerMember([2.0, 8.0]), PHASES, catch_share=popsim.PerMember([0.0, 0.5])
    )
    own = [popsim.select_member(plan, index) for index in range(2)]
    assert [float(one.parameters(4)) for one in own] == [2.0, 8.0]
    assert [float(one.probability(4)) for one in own] == [1.0, 0.5]


FIELD = tasks.adaptation_plan("curl field", 5.0, catch_share=0.2, unless=("force channel",))


def test_a_channel_goes_straight_to_the_target_of_its_trial(getkey):
    trials = many_trials(
        tasks.WithInterventions(tasks.RandomReaches(WORKSPACE), [tasks.channel_trials(0.25)]), getkey()
    )
    channel = trials.interventions["force channel"]
    way = np.asarray(trials.targets.position[:, -1] - trials.init.position)
    np.testing.assert_array_equal(channel.parameters.start, trials.init.position)
    along = way / np.linalg.norm(way, axis=1, keepdims=True)
    np.testing.assert_allclose(channel.parameters.direction, along, atol=1e-5)
    np.testing.assert_array_equal(channel.parameters.stiffness, 2000.0)
    np.testing.assert_array_equal(channel.parameters.damping, 50.0)
    assert_share(trials.conditions["force channel"], 0.25)
    np.testing.assert_array_equal(
        channel.active, trials.conditions["force channel"][:, None] & np.ones(100, bool)
    )


def test_a_channel_and_a_field_never_act_in_the_same_trial(getkey):
    """The field keeps its share of the trials without a channel."""
    task = tasks.WithInterventions(tasks.RandomReaches(WORKSPACE), [tasks.channel_trials(0.3), FIELD])
    trials = many_trials(task, getkey(), batch=200)
    channel, field = (
        np.asarray(trials.interventions[name].active) for name in ("force channel", "curl field")
    )
    assert not np.any(channel & field)
    assert_share(channel[:, 0], 0.3)
    assert_share(field[:, 0], 0.7 * 0.8)
    assert not np.any(many_trials(task, getkey(), 50, batch=0).interventions["curl field"].active)


def test_where_the_hand_is_to_stay_the_channel_is_finite(getkey):
    plan = tasks.channel_trials(
        1.0, stiffness=500.0, damping=5.0, window=popsim.windows.FromEvent("target on")
    )
    task = tasks.WithInterventions(tasks.DelayedReaches(WORKSPACE, catch_probability=1.0), [plan])
    trials = many_trials(task, getkey(), 2)
    channel = trials.interventions["force channel"]
    np.testing.assert_allclose(channel.parameters.direction, np.tile([1.0, 0.0], (2, 1)), atol=1e-6)
    np.testing.assert_array_equal(channel.parameters.stiffness, 500.0)
    np.testing.assert_array_equal(channel.active, steps_from(trials.timeline.events["target on"], 150))
