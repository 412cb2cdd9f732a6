import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, stacked

import popsim
from popsim import Timeline, Trial
from popsim.interventions import InterventionSchedule
from popsim.trial import n_trials

TIMELINE = Timeline(dt=0.01, n_steps=5, epochs={"hold": jnp.array([1, 3])})


def trial(**fields):
    good = {"init": (), "inputs": {"go": jnp.ones((5, 1))}, "targets": (), "timeline": TIMELINE}
    return Trial(**good | fields)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"inputs": {"go": jnp.ones((4, 1))}}, r"`inputs\['go'\]`.*5 time steps.*\(4, 1\)"),
        ({"inputs": jnp.ones(())}, r"`inputs`.*5 time steps.*\(\)"),
        ({"inputs": {"go": jnp.ones((5, 1), int)}}, r"`inputs\['go'\]`.*floating-point, got int32"),
        ({"inputs": {"go": jnp.ones((5, 1), bool)}}, r"`inputs\['go'\]`.*floating-point, got bool"),
        ({"inputs": jnp.ones(5)}, r"`inputs`.*axes \(time, feature\).*\(5,\)"),
        ({"inputs": {"go": jnp.ones(5)}}, r"`inputs\['go'\]`.*axes \(time, feature\).*\(5,\)"),
        ({"targets": jnp.ones(5)}, r"`targets`.*axes \(time, feature\).*\(5,\)"),
        ({"targets": {"hand": jnp.ones((6, 2))}}, r"`targets\['hand'\]`.*5 time steps.*\(6, 2\)"),
        (
            {"interventions": {"kick": InterventionSchedule(jnp.ones(2), jnp.ones(4, bool))}},
            r"`interventions\['kick'\]`.*5 time steps.*\(4,\)",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(fields, message):
    trial(targets={"counts": jnp.ones(5)})  # what is no bare array has the axes that its loss term expects
    with pytest.raises(ValueError, match=message):
        trial(**fields)


def test_a_step_is_given_the_parameters_of_the_trial_and_whether_they_act_now():
    schedule = InterventionSchedule(jnp.array([1.0, 2.0]), jnp.arange(5) == 3)
    given = trial(interventions={"kick": schedule}).at_step({"go": jnp.ones(1)}, {"kick": jnp.array(True)})
    np.testing.assert_array_equal(given.interventions["kick"].parameters, [1.0, 2.0])
    assert given.interventions["kick"].active
    np.testing.assert_array_equal(given.inputs["go"], [1.0])


def test_trials_made_under_vmap_are_stacked():
    def at(position):
        return dataclasses.replace(trial(), init=position)

    trials = jax.vmap(at)(jnp.arange(6.0).reshape(3, 2))
    assert n_trials(trials) == 3 and trials.timeline.n_steps == 5
    np.testing.assert_array_equal(trials.init[2], [4.0, 5.0])


def test_the_number_of_trials_needs_no_inputs():
    alone = dataclasses.replace(reach(), inputs={})
    assert n_trials(stacked(alone, alone)) == 2


def test_repeats_of_a_trial_stand_in_a_row():
    trials = stacked(reach(start=(0.0, 0.0)), reach(start=(0.1, 0.0)))
    repeated = popsim.repeat_trials(trials, 3)
    np.testing.assert_allclose(repeated.init.position[:, 0], [0, 0, 0, 0.1, 0.1, 0.1])
    assert repeated.timeline.n_steps == 12 and n_trials(repeated) == 6
