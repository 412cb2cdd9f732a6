import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, one_hot, share_error, validation_trials

import popsim
from popsim.losses import CrossEntropy, OutputError
from popsim.tasks import (
    CenterOutReaches,
    ContextIntegration,
    DelayedResponse,
    MultiTask,
    PerceptualDecision,
    ReadySetGo,
    SineGeneration,
    WithInterventions,
)

TASKS = {"decide": PerceptualDecision(dt=0.02), "respond": DelayedResponse(dt=0.02), "sine": SineGeneration()}


@pytest.fixture(scope="module")
def drawn():
    """2,000 trials of the mixture, and for each trial and task the trial that was or was not taken."""
    key = jax.random.key(4)
    keys = jax.random.split(key, 2000)
    alone = {
        name: jax.tree.map(
            np.asarray,
            jax.jit(
                jax.vmap(
                    lambda key, task=task, name=name: task.trial(
                        batch=0, key=popsim.key_stream(key, f"task {name}")
                    )
                )
            )(keys),
        )
        for name, task in TASKS.items()
    }
    return many_trials(MultiTask(TASKS), key), alone


@pytest.mark.full
def test_each_task_comes_as_often_and_is_told(drawn):
    trials, _ = drawn
    task = trials.conditions["task"]
    np.testing.assert_allclose(np.bincount(task) / 2000, 1 / 3, atol=share_error(1 / 3, 2000))
    told = np.repeat(one_hot(task, 3)[:, None], 100, axis=1)
    np.testing.assert_array_equal(trials.inputs["task"], told)


def test_inputs_of_one_name_share_channels_and_those_that_a_task_lacks_are_zero(drawn):
    trials, alone = drawn
    assert {name: x.shape[1:] for name, x in trials.inputs.items()} == {
        "fixation": (100, 1),
        "frequency": (100, 1),
        "rule": (100, 2),
        "stimulus": (100, 8),
        "task": (100, 3),
    }
    for index, own in enumerate(alone.values()):
        here = trials.conditions["task"] == index
        for name in ("fixation", "frequency", "rule", "stimulus"):
            expected = np.zeros((here.sum(), *trials.inputs[name].shape[1:]))
            if name in own.inputs:
                _, n_steps, width = own.inputs[name].shape
                expected[:, :n_steps, :width] = own.inputs[name][here]
            np.testing.assert_allclose(trials.inputs[name][here], expected, atol=1e-6)  # compiled otherwise


def test_outputs_that_a_task_lacks_should_be_silent_and_nothing_counts_after_its_end(drawn):
    trials, alone = drawn
    for index, own in enumerate(alone.values()):
        here = trials.conditions["task"] == index
        values, counts = trials.targets.values[here], trials.targets.counts[here]
        _, n_steps, width = own.targets.values.shape
        np.testing.assert_array_equal(values[:, :n_steps, :width], own.targets.values[here])
        np.testing.assert_array_equal(counts[:, :n_steps], own.targets.counts[here])
        assert np.all(values[..., width:] == 0) and np.all(counts[:, n_steps:] == 0)


def test_epochs_events_and_conditions_of_other_tasks_are_marked_as_missing(drawn):
    trials, alone = drawn
    task = trials.conditions["task"]
    is_sine = task == 2
    assert np.all(trials.timeline.events["go cue"][is_sine] == popsim.NEVER)
    go = np.where(task == 0, *(alone[name].timeline.events["go cue"] for name in ("decide", "respond")))
    np.testing.assert_array_equal(trials.timeline.events["go cue"][~is_sine], go[~is_sine])
    assert np.all(np.diff(trials.timeline.epochs["delay"][is_sine]) == 0)
    assert np.all(np.diff(trials.timeline.epochs["oscillation"])[is_sine] == 100)
    assert np.all(np.diff(trials.timeline.epochs["oscillation"])[~is_sine] == 0)
    np.testing.assert_array_equal(np.isnan(trials.conditions["coherence"]), task != 0)
    np.testing.assert_array_equal(trials.conditions["rule"] == -1, task != 1)
    np.testing.assert_array_equal(trials.conditions["catch"], np.where(is_sine, -1, 0))
    selected = (jnp.asarray(leaf[~is_sine]) for leaf in (trials.targets.values, trials.targets.counts))
    choices = popsim.OutputTarget(*selected)
    np.testing.assert_array_equal(popsim.correct_choice(choices), trials.conditions["choice"][~is_sine])
    with pytest.raises(ValueError, match="`target` must ask for choices"):
        popsim.correct_choice(trials.targets)


def test_validation_has_all_trials_of_all_tasks():
    validation = validation_trials(MultiTask(TASKS))
    np.testing.assert_array_equal(validation.conditions["task"], np.repeat([0, 1, 2], [10, 16, 5]))
    np.testing.assert_array_equal(
        validation.conditions["coherence"][:10],
        validation_trials(TASKS["decide"]).conditions["coherence"],
    )


def test_shares_may_be_given_by_name():
    numbers = {name: float(place) for place, name in enumerate(TASKS, 1)}
    backwards = dict(reversed(numbers.items()))
    by_name, in_order = MultiTask(TASKS, shares=backwards), MultiTask(TASKS, shares=list(numbers.values()))
    assert by_name.shares(0).tolist() == in_order.shares(0).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.full
def test_shares_may_follow_a_schedule_and_leave_tasks_out(getkey):
    shares = popsim.schedules.PiecewiseSchedule((0, 10), [[1.0, 0.0, 0.0], [0.0, 1.0, 3.0]])
    task = MultiTask(TASKS, shares=shares)
    assert np.all(many_trials(task, getkey(), 200, batch=9).conditions["task"] == 0)
    later = np.bincount(many_trials(task, getkey(), batch=10).conditions["task"], minlength=3) / 2000
    np.testing.assert_allclose(later, [0, 0.25, 0.75], atol=share_error(0.25, 2000))


def test_the_order_of_the_tasks_is_as_given_also_under_jit(getkey):
    task = MultiTask({"z": SineGeneration(), "a": PerceptualDecision(dt=0.02)}, shares=[1.0, 0.0])
    key = getkey()
    compiled = jax.jit(lambda task: task.trial(batch=0, key=key))(task)
    assert int(compiled.conditions["task"]) == 0 and not np.isnan(float(compiled.conditions["frequency"]))


def test_the_loss_is_the_one_that_all_tasks_have(as_users_run):
    decide = [PerceptualDecision(loss=2.0 * CrossEntropy(), dt=0.02) for _ in range(2)]
    mixture = MultiTask(dict(zip("ab", decide, strict=True)))
    assert mixture.loss.weights == {"cross entropy": 2.0}
    differ = {"entropy": decide[0], "error": PerceptualDecision(dt=0.02)}
    with pytest.raises(ValueError, match="`loss` must be given"):
        MultiTask(differ)
    assert MultiTask(differ, loss=1.0 * OutputError()).loss.weights == {"output error": 1.0}


@pytest.mark.full
@pytest.mark.parametrize("draw", ["trial", "validation_trials"])
def test_a_choice_with_one_output_is_refused_beside_tasks_with_several(draw, getkey, as_users_run):
    one, two = ContextIntegration(), ContextIntegration(n_outputs=2)
    options = {"trial": {"batch": 0, "key": getkey()}, "validation_trials": {}}[draw]
    drawn_by = eqx.filter_jit(lambda task: getattr(task, draw)(**options))
    match = r"`tasks` must not mix.*\['context'\] with \['decide'\].*`n_outputs=2`"
    with pytest.raises(ValueError, match=match):
        drawn_by(MultiTask({"context": one, "decide": TASKS["decide"]}, loss=one.loss))
    mixed = drawn_by(MultiTask({"context": two, "decide": TASKS["decide"]}, loss=one.loss))
    choice = popsim.correct_choice(mixed.targets)
    np.testing.assert_array_equal(choice, mixed.conditions["choice"])


@pytest.mark.full
def test_the_accuracy_of_a_mixture_with_what_is_no_choice_is_refused(getkey):
    mixture = MultiTask({"context": ContextIntegration(), "go": ReadySetGo()}, loss=1.0 * OutputError())
    trials = many_trials(mixture, getkey(), 20)
    with pytest.raises(ValueError, match="`is_choice=False`"):
        popsim.choice_accuracy(trials.targets.values[None], trials.targets)
    alone = many_trials(MultiTask({"context": ContextIntegration()}), getkey(), 20)
    outputs = 2 * alone.targets.values[None] - 1
    assert popsim.choice_accuracy(outputs, alone.targets).tolist() == [1.0]


def test_tasks_that_cannot_be_mixed_are_refused(getkey, as_users_run):
    workspace = popsim.Workspace([0.0, 0.0], [0.1, 0.1])
    plan = popsim.interventions.InterventionPlan("noise", 1.0)
    for tasks, message in (
        ({"sine": SineGeneration(), "reach": CenterOutReaches(workspace, dt=0.02)}, "without a body"),
        ({"sine": SineGeneration(), "fast": SineGeneration(dt=0.01)}, "`dt`"),
        ({"both": MultiTask(TASKS)}, "'task'"),
        ({"disturbed": WithInterventions(SineGeneration(), (plan,))}, "interventions"),
    ):
        with pytest.raises(ValueError, match=message):
            eqx.filter_jit(MultiTask(tasks, loss=1.0 * OutputError()).trial)(batch=0, key=getkey())
    for options, message in (
        ({"shares": [1.0, 1.0]}, "`shares`"),
        ({"shares": [1.0, -1.0, 1.0]}, "`shares`"),
        ({"shares": {"z": 1.0}}, "`shares` must be of each of the tasks"),
        ({"shares": dict.fromkeys(TASKS, -1.0)}, "`shares` must be one number for each"),
        ({"shares": [0.0, 0.0, 0.0]}, "`shares`"),
        ({"shares": popsim.schedules.LinearSchedule([0.0], [1.0], last_batch=5)}, "`shares`"),
    ):
        with pytest.raises(ValueError, match=message):
            MultiTask(TASKS, **options)
    with pytest.raises(ValueError, match="`tasks`"):
        MultiTask({})
