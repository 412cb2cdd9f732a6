import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motor_trials import WORKSPACE, assert_share, assert_uniform, many_trials, steps_from

import popsim
from popsim import tasks
from popsim.distributions import Uniform
from popsim.interventions import ConstantForce, ForceNoise, FromTrial, schedule_intervention
from popsim.trial import label_trial
from popsim.windows import FromEvent


def test_a_load_pulse_acts_between_its_events_with_drawn_force(getkey):
    trials = many_trials(
        tasks.WithInterventions(tasks.PosturalHold(WORKSPACE), [tasks.load_pulses(Uniform(1.0, 4.0))]),
        getkey(),
    )
    pulse = trials.interventions["constant force"]
    events = trials.timeline.events
    expected = steps_from(events["pulse on"], 120) & ~steps_from(events["pulse off"], 120)
    np.testing.assert_array_equal(pulse.active, expected)
    assert_uniform(np.linalg.norm(pulse.parameters, axis=1), 1.0, 4.0)
    assert_uniform(np.arctan2(pulse.parameters[:, 1], pulse.parameters[:, 0]), -np.pi, np.pi)


def test_a_share_of_trials_has_pulses_in_even_directions(getkey):
    plan = tasks.load_pulses(2.0, n_directions=4, probability=0.25)
    trials = many_trials(tasks.WithInterventions(tasks.PosturalHold(WORKSPACE), [plan]), getkey())
    pulse = trials.interventions["constant force"]
    acts = np.any(pulse.active, axis=1)
    np.testing.assert_array_equal(acts, trials.conditions["constant force"])
    assert_share(acts, 0.25)
    quarters = np.arctan2(pulse.parameters[:, 1], pulse.parameters[:, 0]) / (np.pi / 2)
    np.testing.assert_allclose(quarters, np.round(quarters), atol=1e-5)
    np.testing.assert_allclose(np.bincount(np.round(quarters).astype(int) % 4), 500, atol=100)


def test_loads_of_reaches_have_drawn_strengths_where_and_when_they_say(getkey):
    after = FromEvent("go cue")
    plans = [
        tasks.random_forces(Uniform(0.0, 3.0), n_axes=2, window=after),
        tasks.random_curl_fields(Uniform(-8.0, 8.0), window=after, probability=0.5, cue_input="field"),
    ]
    trials = many_trials(tasks.WithInterventions(tasks.DelayedReaches(WORKSPACE), plans), getkey())
    force, field = (trials.interventions[name] for name in ("constant force", "curl field"))
    gone = steps_from(trials.timeline.events["go cue"], 150)
    np.testing.assert_array_equal(force.active, gone)
    np.testing.assert_array_equal(field.active, gone & np.asarray(trials.conditions["curl field"])[:, None])
    assert_share(np.asarray(trials.conditions["curl field"])[gone.any(axis=1)], 0.5)  # not in catch trials
    assert_uniform(np.linalg.norm(force.parameters, axis=1), 0.0, 3.0)
    assert_uniform(field.parameters, -8.0, 8.0)
    told = np.where(field.active, field.parameters[:, None], 0.0)
    np.testing.assert_array_equal(trials.inputs["field"][..., 0], told)


def test_a_vector_in_space_lies_in_the_plane_within_its_bounds(getkey):
    vectors = tasks.DirectedVector(Uniform(1.0, 2.0), n_axes=3)
    drawn = np.asarray(jax.vmap(lambda key: vectors.sample(key=key))(jax.random.split(getkey(), 2000)))
    np.testing.assert_array_equal(drawn[:, 2], 0.0)
    low, high = vectors.bounds()
    np.testing.assert_array_equal(low, [-2.0, -2.0, 0.0])
    np.testing.assert_array_equal(high, [2.0, 2.0, 0.0])
    assert np.all((drawn >= low) & (drawn <= high))


def test_torques_stay_on_while_one_posture_is_held(getkey):
    plan = tasks.random_torques(1.5, n_directions=8, window=FromEvent("pulse on"))
    hold = tasks.PosturalHold(WORKSPACE, place=[0.02, 0.33])
    trials = many_trials(tasks.WithInterventions(hold, [plan]), getkey())
    np.testing.assert_array_equal(trials.init.position, np.broadcast_to(np.float32([0.02, 0.33]), (2000, 2)))
    torque = trials.interventions["joint torque"]
    np.testing.assert_array_equal(torque.active, steps_from(trials.timeline.events["pulse on"], 120))
    np.testing.assert_allclose(np.linalg.norm(torque.parameters, axis=1), 1.5, rtol=1e-5)
    assert hold.validation_trials().init.position.shape == (1, 2)


def test_each_trial_has_a_load_of_its_own():
    trials = tasks.CenterOutReaches(WORKSPACE, n_directions=4).validation_trials()
    loads = np.float32([[1, 0], [0, 1], [-1, 0], [0, 2]])
    own = FromTrial(lambda trial: trial.conditions["load"])
    pushed = schedule_intervention(label_trial(trials, {"load": jnp.asarray(loads)}), "constant force", own)
    np.testing.assert_array_equal(pushed.interventions["constant force"].parameters, loads)
    loop = popsim.SensorimotorLoop(
        popsim.networks.GRUNetwork(6, 3, 2, key=jax.random.key(0)),
        popsim.plants.PointMass(),
        {"vision": popsim.SensoryChannel(popsim.vision)},
        interventions=(ConstantForce(),),
        dt=0.01,
    )
    forces = popsim.evaluate(loop, tasks.CenterOutReaches(WORKSPACE), trials=pushed, key=jax.random.key(0))
    np.testing.assert_array_equal(forces.states.external_force[:, 5], loads)
    with pytest.raises(ValueError, match="parameters of constant force"):
        schedule_intervention(trials, "constant force", FromTrial(lambda trial: jnp.full(2, jnp.nan)))
    noisy = schedule_intervention(trials, "force noise", 1.0)
    on_cursor = (lambda model: (model.plant, model.interventions), loop)
    replaced = eqx.tree_at(*on_cursor, (popsim.plants.VelocityCursor(), (ConstantForce(), ForceNoise())))
    for loaded in (pushed, noisy):
        with pytest.raises(ValueError, match="`plant` must be changed by a force on the hand"):
            popsim.evaluate(replaced, tasks.CenterOutReaches(WORKSPACE), trials=loaded, key=jax.random.key(0))
