import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim.networks import LeakyRNN


def trials(n_inputs=2, dt=0.01, targets=()):
    def trial(key):
        inputs = {"stimulus": jax.random.normal(key, (5, n_inputs))}
        return popsim.Trial((), inputs, targets, popsim.Timeline(dt=dt, n_steps=5))

    return jax.vmap(trial)(jax.random.split(jax.random.key(0), 3))


def build(key):
    return popsim.NetworkModel(LeakyRNN(2, 4, 1, key=key), dt=0.01)


@pytest.mark.parametrize(
    "bad, message",
    [
        (trials(n_inputs=3), "`network`.*3 inputs"),
        (trials(dt=0.02), "`dt`.*0.01"),
        (trials(targets=jnp.ones((5, 2))), r"`targets`.*network's output, 1, got \(time, 2\)"),
        (trials(targets=jnp.ones((5, 1, 1))), r"`targets`.*network's output, 1, got \(time, 1, 1\)"),
    ],
)
def test_trials_that_do_not_fit_are_refused(getkey, bad, message):
    build(getkey()).check(trials(targets=jnp.ones((5, 1))))
    build(getkey()).check(trials(targets={"velocity": jnp.ones((5, 2))}))  # for a loss that compares it
    with pytest.raises(ValueError, match=message):
        build(getkey()).check(bad)


def test_interventions_that_need_a_body_are_refused(getkey):
    network = LeakyRNN(2, 4, 1, key=getkey())
    for held in (popsim.interventions.CursorShift(), popsim.interventions.CommandNoise()):
        with pytest.raises(ValueError, match=f"`interventions`.*'{held.name}'.*'{held.after_stage}'"):
            popsim.NetworkModel(network, (held,), dt=0.01)
    with pytest.raises(ValueError, match="different names"):
        popsim.NetworkModel(
            network, (popsim.interventions.UnitNoise(), popsim.interventions.UnitNoise()), dt=0.01
        )


def test_trials_may_schedule_what_the_model_holds_with_numbers_that_are_finite(getkey):
    model = dataclasses.replace(build(getkey()), interventions=(popsim.interventions.UnitNoise(),))
    model.check(popsim.interventions.schedule_intervention(trials(), "unit noise", 0.1))
    with pytest.raises(ValueError, match=r"`interventions`.*\['kick'\].*\['unit noise'\]"):
        model.check(popsim.interventions.schedule_intervention(trials(), "kick", 0.1))
    with pytest.raises(ValueError, match="unit noise.*finite"):
        model.check(popsim.interventions.schedule_intervention(trials(), "unit noise", np.nan))


def test_a_network_built_for_another_time_step_is_refused(getkey):
    with pytest.raises(ValueError, match=r"`dt`.*0\.01"):
        popsim.NetworkModel(LeakyRNN(2, 4, 1, dt=0.01, key=getkey()), dt=0.02)


def test_a_task_for_a_hand_needs_a_body(getkey):
    plant = popsim.plants.PointMass()
    trials = popsim.tasks.CenterOutReaches(plant.workspace).validation_trials()
    network = popsim.networks.GRUNetwork(popsim.n_network_inputs(trials), 4, 2, key=getkey())
    assert network.n_inputs == 2
    with pytest.raises(ValueError, match="`model` must be one with a body"):
        popsim.NetworkModel(network, dt=0.01).check(trials)
    with pytest.raises(ValueError, match="`plant` and `channels` must be given together"):
        popsim.n_network_inputs(trials, plant)
