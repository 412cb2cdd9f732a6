import jax.numpy as jnp
import numpy as np
from motor_trials import WORKSPACE, assert_share, many_trials, steps_from

import popsim
from popsim.tasks import DelayedReaches, RandomReaches, WithInterventions, adaptation_plan, channel_trials

FIELD = adaptation_plan("curl field", 5.0, catch_share=0.2, unless=("force channel",))


def test_a_channel_goes_straight_to_the_target_of_its_trial(getkey):
    trials = many_trials(WithInterventions(RandomReaches(WORKSPACE), [channel_trials(0.25)]), getkey())
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
    task = WithInterventions(RandomReaches(WORKSPACE), [channel_trials(0.3), FIELD])
    trials = many_trials(task, getkey(), batch=200)
    channel, field = (
        np.asarray(trials.interventions[name].active) for name in ("force channel", "curl field")
    )
    assert not np.any(channel & field)
    assert_share(channel[:, 0], 0.3)
    assert_share(field[:, 0], 0.7 * 0.8)
    assert not np.any(many_trials(task, getkey(), 50, batch=0).interventions["curl field"].active)


def test_where_the_hand_is_to_stay_the_channel_is_finite(getkey):
    plan = channel_trials(1.0, stiffness=500.0, damping=5.0, window=popsim.windows.FromEvent("target on"))
    task = WithInterventions(DelayedReaches(WORKSPACE, catch_probability=1.0), [plan])
    for trial in (task.trial(batch=0, key=getkey()), many_trials(task, getkey(), 1)):
        channel = trial.interventions["force channel"]
        np.testing.assert_allclose(np.ravel(channel.parameters.direction), [1.0, 0.0], atol=1e-6)
        np.testing.assert_array_equal(np.ravel(channel.parameters.stiffness), 500.0)
        expected = steps_from(jnp.atleast_1d(trial.timeline.events["target on"]), 150)
        np.testing.assert_array_equal(np.atleast_2d(channel.active), expected)


def test_equal_channels_share_compiled_programs():
    assert channel_trials().parameters == channel_trials().parameters
    assert channel_trials(stiffness=1000.0).parameters != channel_trials().parameters
