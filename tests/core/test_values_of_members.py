"""Values of members reach a constructor while JAX traces it, where no check sees them."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import popsim
from popsim import PerMember

KEY = jax.random.key(0)


def loop(*, key, mass=1.0, delay=0.0):
    channel = popsim.SensoryChannel(popsim.vision, 0.1, own_delay=delay)
    return popsim.SensorimotorLoop(
        popsim.networks.GRUNetwork(6, 2, 2, key=key),
        popsim.plants.PointMass(mass),
        {"vision": channel},
        dt=0.01,
    )


def leaky(*, key, **settings):
    return popsim.NetworkModel(popsim.networks.LeakyRNN(1, 3, 1, **settings, key=key), dt=0.01)


REFUSED = [
    (loop, "mass", -1.0, "`mass`.*got -1.0"),
    (loop, "delay", 0.2, "`own_delay`.*got 0.2 s"),
    (leaky, "tau", 0.003, "tau = 0.003 s"),
    (leaky, "noise_std", -0.1, "`noise_std`.*got -0.1"),
]


@pytest.mark.parametrize(("build", "name", "bad", "message"), REFUSED, ids=lambda value: str(value)[:20])
def test_a_value_that_one_model_refuses_is_refused_of_a_member(build, name, bad, message):
    with pytest.raises(ValueError, match=message):
        build(key=KEY, **{name: bad})
    members = popsim.member_grid(2, **{name: [0.1, bad]})
    with pytest.raises(ValueError, match=rf"{message}.*`build` was called with {name} = {bad}\."):
        popsim.build_members(build, members, key=KEY)
    with pytest.raises(ValueError, match=message):  # also where `build` itself computes the value
        popsim.make_ensemble(lambda key: build(key=key, **{name: jnp.asarray(bad) * 1}), 2, key=KEY)


def fixed(key):
    return leaky(key=jax.random.key(3))


def test_a_build_that_ignores_its_key_is_warned_of():
    with pytest.warns(UserWarning, match="`build` ignores its `key`"):
        popsim.make_ensemble(fixed, 2, key=KEY)
    members = popsim.member_grid(2, tau=[0.1, 0.2])
    with pytest.warns(UserWarning, match="`build` ignores its `key`"):
        popsim.build_members(lambda *, key, tau: leaky(key=jax.random.key(0), tau=tau), members, key=KEY)


def test_what_is_put_into_a_task_is_checked_when_it_is_used():
    task = popsim.tasks.SineGeneration(duration=0.1)
    task = eqx.tree_at(lambda task: task.frequency.low, task, PerMember([0.5, 1.0, 30.0]))
    ensemble = popsim.make_ensemble(lambda key: leaky(key=key), 3, key=KEY)
    with pytest.raises(ValueError, match="`task.frequency` of member 2: `high` must be at least `low`"):
        popsim.evaluate_ensemble(ensemble, task, key=KEY)
    with pytest.raises(ValueError, match="`task.frequency` of member 2: `high` must be at least `low`"):
        popsim.TaskTrainer(popsim.training.adam(1e-2))(
            task, ensemble, 1, 1, lambda model: model.network, ensembled=True, key=KEY
        )


def test_a_curriculum_to_a_value_that_the_task_refuses_is_refused():
    schedule = popsim.schedules.PiecewiseSchedule((0, 5, 9), [0.0, 1.5, 0.1])
    task = popsim.tasks.DelayedReaches(popsim.plants.PointMass().workspace)
    with pytest.raises(ValueError, match="`catch_probability` must be from zero to one, got 1.5"):
        popsim.tasks.ParameterCurriculum(task, lambda task: task.catch_probability, schedule)


@pytest.mark.parametrize(
    ("intervention", "bad"),
    [(popsim.interventions.LoadMass(), -0.5), (popsim.interventions.SilenceUnits(), (0.0, -0.5))],
)
def test_a_parameter_that_no_trial_may_have_is_refused(intervention, bad):
    model = dataclasses.replace(loop(key=KEY), interventions=(intervention,))
    task = popsim.tasks.RandomReaches(model.plant.workspace, duration=0.2)
    plan = popsim.interventions.InterventionPlan(intervention.name, bad)
    with pytest.raises(ValueError, match=rf"interventions\['{intervention.name}'\]"):
        popsim.evaluate(model, popsim.tasks.WithInterventions(task, (plan,)), key=KEY)
