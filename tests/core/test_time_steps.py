"""Every time that becomes a time step does so by one rule: the nearest step since the start, a half up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import Epoch, TrialPlan
from popsim.analysis import trial_times
from popsim.distributions import Uniform
from popsim.interventions import InterventionPlan
from popsim.windows import Between, FromEvent

DT = 0.01
TIMELINE = popsim.Timeline(DT, 60, events={"go cue": jnp.array(20)})


def test_times_at_which_a_delay_is_drawn_are_rounded():
    plan = InterventionPlan("push", 1.0, window=FromEvent("go cue", 0.0, DT), delay=Uniform(0.0, 0.1))
    trial = popsim.Trial(init=(), inputs=jnp.zeros((60, 1)), targets=(), timeline=TIMELINE)

    def acts(key):
        return plan.schedule(trial, batch=0, key=key).interventions["push"].active

    active = jax.vmap(acts)(jax.random.split(jax.random.key(0), 200))
    assert np.all(active.sum(axis=1) == 1)
    assert set(np.flatnonzero(active.any(axis=0))) == set(range(20, 31))


def channel(**delays):
    sense = popsim.SensoryChannel(popsim.vision, **delays)
    network = popsim.networks.GRUNetwork(6, 2, 2, key=jax.random.key(0))
    return popsim.SensorimotorLoop(network, popsim.plants.PointMass(), {"vision": sense}, dt=DT)


def planned(delay):
    task = popsim.tasks.RandomReaches(popsim.plants.PointMass().workspace, duration=0.2)
    return popsim.tasks.WithInterventions(task, [InterventionPlan("push", 1.0, delay=delay)])


def trials():
    return popsim.tasks.DelayedReaches(popsim.plants.PointMass().workspace, duration=1.5).validation_trials()


OFF_GRID = {
    "an event's delay": lambda: TIMELINE.since("go cue", 0.014),
    "a window's delay": lambda: FromEvent("go cue", 0.014)(TIMELINE),
    "a window's delay, with a duration": lambda: FromEvent("go cue", 0.014, 0.03)(TIMELINE),
    "a window's delay, in a program": lambda: jax.jit(FromEvent("go cue", 0.014))(TIMELINE),
    "a sensory delay": lambda: channel(delay=0.014),
    "a member's sensory delay": lambda: channel(delay=0.02, own_delay=0.014),
    "the delay of an intervention": lambda: planned(0.014),
    "a delay per member": lambda: planned(popsim.PerMember([0.01, 0.014])),
    "grace": lambda: popsim.tasks.DelayedResponse(response=popsim.tasks.GoResponse(grace=0.014), dt=DT),
    "a trial": lambda: TrialPlan([Epoch("all")], duration=0.014, dt=DT),
    "the last steps": lambda: popsim.losses.FinalSteps(0.014)(TIMELINE),
    "alignment": lambda: trial_times.align_to_event(
        jnp.zeros((8, 150)), trials(), "go cue", before=0.014, after=0.1
    ),
}


@pytest.mark.parametrize("made", OFF_GRID.values(), ids=OFF_GRID)
def test_a_fixed_time_between_two_steps_is_refused_with_the_nearest(made):
    with pytest.raises(ValueError, match="multiple of the time step.* 0.01 s and 0.02 s, got 0.014 s"):
        made()


TOO_SHORT = {
    "after an event": lambda: FromEvent("go cue", 0.0, 0.004)(TIMELINE),
    "after an event, nearly a step": lambda: FromEvent("go cue", 0.0, 0.006)(TIMELINE),
    "between times": lambda: Between(0.1, 0.1045)(TIMELINE),
    "an epoch": lambda: TrialPlan([Epoch("flash", 0.004), Epoch("rest")], duration=1.0, dt=DT),
    "a pulse": lambda: popsim.tasks.ReadySetGo(pulse=0.004).validation_trials(),
}


@pytest.mark.parametrize("made", TOO_SHORT.values(), ids=TOO_SHORT)
def test_a_window_shorter_than_a_step_is_refused(made):
    with pytest.raises(ValueError, match="must be at least a time step, dt = 0.0[12] s, got 0.00[46]5? s"):
        made()
