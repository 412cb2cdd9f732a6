"""Timelines, windows of them, and the time step at which a time falls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import NEVER, Epoch, Timeline, TrialPlan
from popsim.analysis import trial_times
from popsim.interventions import InterventionPlan
from popsim.windows import Before, Between, FromEvent, InEpoch, WholeTrial

EIGHT_STEPS = popsim.Timeline(
    0.01,
    8,
    epochs={"hold": jnp.array([1, 4]), "nothing": jnp.array([3, 3])},
    events={"start": jnp.array(0), "go cue": jnp.array(3), "catch": jnp.array(popsim.NEVER)},
)
WINDOWS = {
    "whole trial": (WholeTrial(), range(8)),
    "in an epoch": (InEpoch("hold"), [1, 2, 3]),
    "in an empty epoch": (InEpoch("nothing"), []),
    "from an event": (FromEvent("go cue"), [3, 4, 5, 6, 7]),
    "from the start": (FromEvent("start"), range(8)),
    "a while after an event": (FromEvent("go cue", 0.02), [5, 6, 7]),
    "before an event": (FromEvent("go cue", -0.02, 0.02), [1, 2]),
    "from before the trial": (FromEvent("start", -0.02, 0.04), [0, 1]),
    "for a time": (FromEvent("go cue", 0.01, 0.03), [4, 5, 6]),
    "for no time": (FromEvent("go cue", 0.01, 0.0), []),
    "for longer than the trial": (FromEvent("go cue", 0.01, 1.0), [4, 5, 6, 7]),
    "from an event that does not come": (FromEvent("catch"), []),
    "after an event that does not come": (FromEvent("catch", 0.01, 0.02), []),
    "ahead of an event that does not come": (FromEvent("catch", -0.08, 0.5), []),
    "long before or after what does not come": (FromEvent("catch", -0.08), []),
    "until an event": (Before("go cue"), [0, 1, 2]),
    "until the start": (Before("start"), []),
    "until an event that does not come": (Before("catch"), range(8)),
    "between times": (Between(0.02, 0.05), [2, 3, 4]),
    "between times, rounded": (Between(0.0199999, 0.0500001), [2, 3, 4]),
    "between one time": (Between(0.02, 0.02), []),
    "between times after the trial": (Between(0.07, 9.0), [7]),
}


@pytest.mark.parametrize("window, steps", WINDOWS.values(), ids=WINDOWS)
def test_the_steps_of_a_window(window, steps):
    np.testing.assert_array_equal(window(EIGHT_STEPS), np.isin(np.arange(8), list(steps)))


def test_an_event_happens_if_it_comes_within_the_trial():
    at = {"at the start": 0, "at the last step": 5, "after it": 6, "never": NEVER}
    timeline = Timeline(0.01, 6, events={name: jnp.array(step) for name, step in at.items()})
    assert [bool(timeline.happens(name)) for name in at] == [True, True, False, False]


DT = 0.01
TIMELINE = popsim.Timeline(DT, 60, events={"go cue": jnp.array(20)})


def channel(**delays):
    sense = popsim.SensoryChannel(popsim.vision, **delays)
    network = popsim.networks.GRUNetwork(6, 2, 2, key=jax.random.key(0))
    return popsim.SensorimotorLoop(network, popsim.plants.PointMass(), {"vision": sense}, dt=DT)


def planned(delay):
    task = popsim.tasks.RandomReaches(popsim.plants.PointMass().workspace, duration=0.2)
    return popsim.tasks.WithInterventions(task, [InterventionPlan("push", 1.0, delay=delay)])


def trials():
    return popsim.tasks.DelayedReaches(popsim.plants.PointMass().workspace, duration=1.5).validation_trials()


OFF_GRID = [
    lambda: TIMELINE.since("go cue", 0.014),
    lambda: FromEvent("go cue", 0.014)(TIMELINE),
    lambda: channel(delay=0.014),
    lambda: channel(delay=0.02, own_delay=0.014),
    lambda: planned(0.014),
    lambda: popsim.tasks.DelayedResponse(response=popsim.tasks.GoResponse(grace=0.014), dt=DT),
    lambda: TrialPlan([Epoch("all")], duration=0.014, dt=DT),
    lambda: trial_times.align_to_event(jnp.zeros((8, 150)), trials(), "go cue", before=0.014, after=0.1),
]


@pytest.mark.parametrize("made", OFF_GRID)
def test_a_fixed_time_between_two_steps_is_refused_with_the_nearest(made):
    with pytest.raises(ValueError, match="multiple of the time step.* 0.01 s and 0.02 s, got 0.014 s"):
        made()


TOO_SHORT = [
    lambda: FromEvent("go cue", 0.0, 0.004)(TIMELINE),
    lambda: Between(0.1, 0.1045)(TIMELINE),
    lambda: TrialPlan([Epoch("flash", 0.004), Epoch("rest")], duration=1.0, dt=DT),
    lambda: popsim.tasks.ReadySetGo(pulse=0.004).validation_trials(),
]


@pytest.mark.parametrize("made", TOO_SHORT)
def test_a_window_shorter_than_a_step_is_refused(made):
    with pytest.raises(ValueError, match="must be at least a time step"):
        made()
