"""Every time that becomes a time step does so by one rule: the nearest step since the start, a half up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth_row

import popsim
from popsim import Epoch, TrialPlan
from popsim._time_steps import step_at
from popsim.analysis import trial_times
from popsim.distributions import Uniform
from popsim.interventions import InterventionPlan
from popsim.windows import Between, FromEvent

DT = 0.01
TIMELINE = popsim.Timeline(DT, 60, events={"go cue": jnp.array(20)})
TIES = np.arange(200) + 0.5


@pytest.mark.parametrize("dt", [0.001, 0.01, 0.02, 1 / 60])
def test_half_a_step_counts_up_in_numbers_and_in_arrays(dt):
    times = TIES * dt
    assert [step_at(time, dt) for time in times.tolist()] == (TIES + 0.5).astype(int).tolist()
    np.testing.assert_array_equal(step_at(jnp.asarray(times, jnp.float32), dt), TIES + 0.5)
    assert step_at(-0.02, DT) == -2 and step_at(0.499, 1.0) == 0


@pytest.mark.parametrize("n_epochs, n_steps", every_nth_row([(4, 50), (10, 125), (100, 1250)], 3))
def test_epochs_of_an_eighth_of_a_second_do_not_drift(n_epochs, n_steps):
    epochs = [Epoch(f"epoch {i}", 0.125) for i in range(n_epochs)]
    plan = TrialPlan([*epochs, Epoch("rest")], duration=0.125 * n_epochs + 0.5, dt=DT)
    ends = [(i + 1) * 12.5 for i in range(n_epochs)]
    for timeline in (plan.nominal(), plan.draw(key=jax.random.key(0))):
        assert int(timeline.epochs["rest"][0]) == n_steps
        found = [int(timeline.epochs[epoch.name][1]) for epoch in epochs]
        assert found == [int(end + 0.5) for end in ends]


def steps(window, timeline=TIMELINE):
    return np.flatnonzero(window(timeline)).tolist()


@pytest.mark.parametrize("n_back", [-7, 0, 1, 3, 14])
@pytest.mark.parametrize("length", [1, 2, 2.5, 12.5])
def test_a_window_has_the_same_number_of_steps_at_every_delay(n_back, length):
    n_steps = int(length + 0.5)
    first = 20 + n_back
    expected = list(range(first, first + n_steps))
    assert steps(FromEvent("go cue", n_back * DT, length * DT)) == expected
    start = (30.5 + n_back) * DT
    assert len(steps(Between(start, start + int(length) * DT))) == int(length)


def test_windows_that_adjoin_in_time_adjoin_in_steps():
    edges = np.linspace(0.0, 0.5, 13).tolist()
    found = [steps(Between(*pair)) for pair in zip(edges[:-1], edges[1:], strict=True)]
    assert sum(found, []) == list(range(50))


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
