"""Wrappers of tasks: interventions, mixtures, phases, schedules, held-out conditions, fixation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import drawn_trials

import popsim
from popsim import Workspace, tasks
from popsim.distributions import Uniform
from popsim.interventions import InterventionPlan
from popsim.schedules import LinearSchedule
from popsim.trial import n_trials

TASK = tasks.CenterOutReaches(Workspace.around(jnp.zeros(2), 0.2), duration=0.2)
FAR = tasks.CenterOutReaches(Workspace.around(jnp.zeros(2), 0.2), duration=0.2, distance=0.2)
CURL = InterventionPlan("curl field", Uniform(5.0, 10.0), probability=0.25)


def draws(task, n=2000, batch=0):
    return drawn_trials(task, jax.random.split(jax.random.key(1), n), jnp.asarray(batch))


def assert_same(first, second):
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_trials_with_interventions_are_those_of_the_task():
    trials, plain = draws(tasks.WithInterventions(TASK, [CURL]), 20), draws(TASK, 20)
    assert_same((trials.init, trials.inputs, trials.targets), (plain.init, plain.inputs, plain.targets))


def test_a_condition_says_whether_an_intervention_acts_and_another_how_strongly():
    late = InterventionPlan(
        "push", 1.0, window=popsim.windows.Between(0.1, 0.2), delay=0.5
    )  # after the trial
    field = InterventionPlan(
        "curl field", Uniform(5.0, 10.0), probability=0.5, unless=("push",), label="strength"
    )
    trials = draws(tasks.WithInterventions(TASK, [late, field]), 200)
    assert not trials.conditions["push"].any()
    acts = np.asarray(trials.conditions["curl field"])
    assert 70 < acts.sum() < 130
    strengths = np.where(acts, trials.interventions["curl field"].parameters, np.nan)
    np.testing.assert_array_equal(trials.conditions["strength"], strengths)


def test_a_share_and_a_parameter_may_follow_schedules_over_batches():
    plan = InterventionPlan(
        "curl field",
        LinearSchedule(0.0, 10.0, last_batch=10),
        probability=popsim.schedules.PiecewiseSchedule((0, 5), [0, 1]),
    )
    task = tasks.WithInterventions(TASK, [plan])
    for batch, acts, strength in ((0, 0.0, 0.0), (4, 0.0, 4.0), (5, 1.0, 5.0), (50, 1.0, 10.0)):
        trials = draws(task, 10, batch)
        np.testing.assert_array_equal(trials.conditions["curl field"], acts)
        np.testing.assert_allclose(trials.interventions["curl field"].parameters, strength, rtol=1e-6)


def test_an_intervention_cannot_be_told_by_an_input_of_the_task():
    with pytest.raises(ValueError, match="`cue_input`.*'target'"):
        draws(tasks.WithInterventions(TASK, [InterventionPlan("curl field", 5.0, cue_input="target")]), 2)


@pytest.mark.full
def test_validation_is_without_any_intervention_then_under_each_alone():
    push = InterventionPlan("push", jnp.zeros(2))
    trials = tasks.WithInterventions(TASK, [CURL, push]).validation_trials()
    assert n_trials(trials) == 24
    np.testing.assert_array_equal(trials.conditions["curl field"], np.repeat([0, 1, 0], 8))
    np.testing.assert_array_equal(trials.conditions["push"], np.repeat([0, 0, 1], 8))
    np.testing.assert_array_equal(trials.interventions["push"].active[:, 0], np.repeat([0, 0, 1], 8))


def test_a_mixture_has_its_shares():
    shares = popsim.schedules.PiecewiseSchedule((0, 3), [[3.0, 1.0], [0.0, 1.0]])
    task = tasks.Mixture([TASK, FAR], shares=shares)
    trials = draws(task)
    distance = np.linalg.norm(trials.inputs["target"][:, 0], axis=-1)
    np.testing.assert_allclose(distance, np.where(trials.conditions["task"], 0.2, 0.1), rtol=1e-5)
    assert abs(float(jnp.mean(trials.conditions["task"])) - 0.25) < 0.03
    assert bool(draws(task, batch=3).conditions["task"].all())


@pytest.mark.full
def test_phases_follow_one_another():
    task = tasks.TaskCurriculum([TASK, FAR], [0, 3])
    for batch, distance in ((0, 0.1), (2, 0.1), (3, 0.2), (99, 0.2)):
        np.testing.assert_allclose(
            np.linalg.norm(draws(task, 5, batch).inputs["target"], axis=-1), distance, rtol=1e-5
        )
    trials = task.validation_trials()
    np.testing.assert_array_equal(trials.conditions["phase"], np.repeat([0, 1], 8))
    assert_same(draws(task, 5, 4).inputs, draws(FAR, 5).inputs)


@pytest.mark.parametrize(
    "wrap", [tasks.Mixture, lambda several: tasks.TaskCurriculum(several, [0, 1])], ids=["mixture", "phased"]
)
def test_tasks_that_differ_are_refused(wrap):
    longer = tasks.CenterOutReaches(TASK.workspace, duration=0.3)
    with pytest.raises(ValueError, match=r"`tasks`.*tasks\[1\] differ in.*30"):
        wrap([TASK, longer])
    other = tasks.CenterOutReaches(TASK.workspace, duration=0.2, loss=1.0 * popsim.losses.FinalVelocity())
    with pytest.raises(ValueError, match="`loss` must be given"):
        wrap([TASK, other])


def test_a_number_of_a_task_follows_a_schedule():
    task = tasks.WithInterventions(TASK, [InterventionPlan("curl field", Uniform(0.0, 1.0))])
    grows = tasks.ParameterCurriculum(
        task, lambda own: own.plans[0].parameters.high, LinearSchedule(1.0, 9.0, last_batch=4)
    )
    for batch, high in ((0, 1.0), (2, 5.0), (4, 9.0), (100, 9.0)):
        strongest = float(draws(grows, batch=batch).interventions["curl field"].parameters.max())
        assert 0.98 * high < strongest <= high
    with pytest.raises(ValueError, match="`where` must pick a floating-point array"):
        tasks.ParameterCurriculum(task, lambda own: own.task.distance, LinearSchedule(0.1, 0.2, last_batch=4))
    with pytest.raises(ValueError, match=r"`schedule`.*\(\), got \(2,\)"):
        tasks.ParameterCurriculum(
            task, lambda own: own.plans[0].parameters.high, LinearSchedule([1, 1], [2, 2], last_batch=4)
        )


def test_held_out_conditions_come_in_validation_only():
    task = tasks.HeldOutConditions(TASK, lambda conditions: jnp.abs(conditions["direction"]) < 0.5)
    trials = draws(task)
    directions = np.unique(np.round(trials.conditions["direction"], 3))
    assert directions.size == 7
    assert np.abs(directions).min() > 0.5
    assert not trials.conditions["held out"].any()
    np.testing.assert_array_equal(task.validation_trials().conditions["held out"], [1] + 7 * [0])


def test_to_hold_out_everything_stops_with_an_error():
    task = tasks.HeldOutConditions(TASK, lambda conditions: conditions["direction"] < 9.0, n_attempts=3)
    with pytest.raises(Exception, match="held out 3 draws in a row"):
        jax.block_until_ready(draws(task, 2))


def test_fixation_lasts_until_its_event():
    class Waits(popsim.AbstractTask):
        plan: popsim.TrialPlan
        loss: popsim.Loss = 1.0 * popsim.losses.FinalVelocity()

        def trial(self, *, batch, key):
            timeline = self.plan.draw(key=key)
            return popsim.Trial((), {"cue": jnp.ones((timeline.n_steps, 1))}, (), timeline)

        def validation_trials(self):
            return jax.vmap(lambda key: self.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 2))

    epochs = (popsim.Epoch("wait", Uniform(0.1, 0.3)), popsim.Epoch("act", event="go cue"))
    plan = popsim.TrialPlan(epochs, duration=0.5, dt=0.01, catch_event="go cue", catch_probability=0.2)
    trials = draws(tasks.WithFixation(Waits(plan)), 200)
    n_fixating = np.asarray(trials.inputs["fixation"][..., 0].sum(axis=1), int)
    np.testing.assert_array_equal(n_fixating, np.minimum(trials.timeline.events["go cue"], 50))
    assert set(n_fixating) - set(range(10, 31)) == {50}
    with pytest.raises(ValueError, match="`name`.*'cue'"):
        draws(tasks.WithFixation(Waits(plan), name="cue"), 2)


def stored(name="observed", **others):
    series = jax.random.normal(jax.random.key(2), (5, 8, 3))
    return tasks.StoredTrials({name: series, **others}, series, dt=0.01)


def test_the_strength_of_teacher_forcing_may_follow_a_schedule_and_differ_between_members():
    falls, plain = LinearSchedule(1.0, 0.5, last_batch=4), stored()
    task = tasks.WithTeacherForcing(plain, popsim.PerMember([1.0, 0.1]) * falls)
    for member, scale in enumerate((1.0, 0.1)):
        own = popsim.select_member(task, member)
        for batch, strength in ((0, 1.0), (2, 0.75), (9, 0.5)):
            signal = draws(own, 6, batch).inputs["forcing"]
            np.testing.assert_array_equal(signal[:, 0, 0], 1)
            np.testing.assert_allclose(signal[:, 1:, 0], scale * strength, rtol=1e-6)
            np.testing.assert_array_equal(signal[..., 1:], draws(plain, 6).inputs["observed"])
        np.testing.assert_allclose(own.validation_trials().inputs["forcing"][:, 1:, 0], scale * 0.5)


@pytest.mark.parametrize(
    ("name", "task", "options"),
    [
        ("strength", stored(), {"strength": -0.1}),
        ("strength", stored(), {"strength": popsim.PerMember([0.1, 1.2])}),
        ("strength", stored(), {"strength": LinearSchedule(1.2, 0.0, last_batch=4)}),
        ("observed", stored("seen"), {}),
        ("name", stored(cue=jnp.ones((5, 8, 1))), {}),
    ],
)
def test_a_teacher_that_cannot_force_is_refused(name, task, options):
    with pytest.raises(ValueError, match=f"`{name}` must"):
        tasks.WithTeacherForcing(task, **{"strength": 0.1, **options}).validation_trials()
