"""Several tasks for one network, and their environments."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials

import popsim
from popsim import tasks
from popsim.losses import CrossEntropy, OutputError
from popsim.tasks.multi_task import SelectedEnvironment
from popsim.tasks.rewards.bandits import BanditEnvironment

TASKS = {
    "decide": tasks.PerceptualDecision(dt=0.02),
    "respond": tasks.DelayedResponse(dt=0.02),
    "sine": tasks.SineGeneration(),
}


@pytest.fixture(scope="module")
def drawn():
    """2,000 trials of the mixture, and for each trial and task the trial that was or was not taken."""
    key = jax.random.key(4)

    def trial_of(name, key):
        return TASKS[name].trial(batch=0, key=popsim.key_stream(key, f"task {name}"))

    draw = jax.jit(jax.vmap(trial_of, (None, 0)), static_argnums=0)
    alone = {name: jax.tree.map(np.asarray, draw(name, jax.random.split(key, 2000))) for name in TASKS}
    return many_trials(tasks.MultiTask(TASKS), key), alone


def test_inputs_of_one_name_share_channels_and_what_a_task_lacks_is_zero_and_counts_nothing(drawn):
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


def test_shares_may_be_given_by_name():
    numbers = {name: float(place) for place, name in enumerate(TASKS, 1)}
    backwards = dict(reversed(numbers.items()))
    by_name, in_order = (
        tasks.MultiTask(TASKS, shares=backwards),
        tasks.MultiTask(TASKS, shares=list(numbers.values())),
    )
    assert by_name.shares(0).tolist() == in_order.shares(0).tolist() == [1.0, 2.0, 3.0]


def test_its_tasks_or_their_shares_can_be_changed_by_replace(as_users_run):
    mixture = tasks.MultiTask({"sine": TASKS["sine"], "decide": TASKS["decide"]}, loss=1.0 * OutputError())
    other = dataclasses.replace(mixture, tasks={"respond": TASKS["respond"], "sine": TASKS["sine"]})
    assert other.names == ("respond", "sine") and other.tasks == (TASKS["respond"], TASKS["sine"])
    rarely = dataclasses.replace(mixture, shares={"decide": 9.0, "sine": 1.0})
    assert rarely.names == mixture.names and rarely.shares(0).tolist() == [1.0, 9.0]
    with pytest.raises(ValueError, match="`shares` must be one number for each of 3 tasks"):
        dataclasses.replace(mixture, tasks=TASKS)


def test_the_loss_is_the_one_that_all_tasks_have(as_users_run):
    decide = [tasks.PerceptualDecision(loss=2.0 * CrossEntropy(), dt=0.02) for _ in range(2)]
    mixture = tasks.MultiTask(dict(zip("ab", decide, strict=True)))
    assert mixture.loss.weights == {"cross entropy": 2.0}
    differ = {"entropy": decide[0], "error": tasks.PerceptualDecision(dt=0.02)}
    with pytest.raises(ValueError, match="`loss` must be given"):
        tasks.MultiTask(differ)
    assert tasks.MultiTask(differ, loss=1.0 * OutputError()).loss.weights == {"output error": 1.0}


def test_tasks_that_cannot_be_mixed_are_refused(getkey, as_users_run):
    workspace = popsim.Workspace([0.0, 0.0], [0.1, 0.1])
    plan = popsim.interventions.InterventionPlan("noise", 1.0)
    for mixed, message in (
        (
            {"sine": tasks.SineGeneration(), "reach": tasks.CenterOutReaches(workspace, dt=0.02)},
            "without a body",
        ),
        ({"sine": tasks.SineGeneration(), "fast": tasks.SineGeneration(dt=0.01)}, "`dt`"),
        ({"both": tasks.MultiTask(TASKS)}, "'task'"),
        ({"disturbed": tasks.WithInterventions(tasks.SineGeneration(), (plan,))}, "interventions"),
    ):
        with pytest.raises(ValueError, match=message):
            eqx.filter_jit(tasks.MultiTask(mixed, loss=1.0 * OutputError()).trial)(batch=0, key=getkey())


KEY = jax.random.key(0)
BANDIT, GO = tasks.BernoulliBandit(n_arms=3, n_choices=15, dt=0.05), tasks.GoNoGo()


@pytest.fixture(scope="module")
def mixed():
    task = tasks.MultiTask({"bandit": BANDIT, "go": GO}, loss=tasks.reward_loss())
    trials = popsim.sample_trials(task, 400, batch=0, key=KEY)
    played = jax.tree.map(np.asarray, tasks.play(tasks.RandomPlayer(3), trials, key=KEY))
    return task, trials, played, np.asarray(trials.conditions["task"]) == 0


def test_each_trial_is_that_of_its_environment(mixed):
    _, trials, played, is_bandit = mixed
    assert np.all(played.active.sum(1)[is_bandit] == 15)  # as long as a trial of the bandit
    assert not played.received["last action"][~is_bandit].any()
    bandit = trials.environment.environments[0]
    probability = np.take_along_axis(np.asarray(bandit.probabilities), played.action, axis=1)
    regret = np.asarray(bandit.probabilities).max(1, keepdims=True) - probability
    counts = played.active & is_bandit[:, None]
    np.testing.assert_allclose(played.record["bandit"]["regret"][counts], regret[counts], atol=1e-6)
    assert not played.record["bandit"]["regret"][~is_bandit].any()
    n = counts.sum()
    assert abs(played.reward[counts].mean() - probability[counts].mean()) < 5 * 0.5 / n**0.5
    # Of go/no-go the third action is its last one, to respond.
    first = np.argmax(played.action > 0, axis=1)
    np.testing.assert_array_equal(played.active.sum(1)[~is_bandit], np.minimum(first + 1, 24)[~is_bandit])


def test_an_environment_that_is_not_selected_may_be_anything():
    bad = BanditEnvironment(jnp.full(2, jnp.nan))
    good = BanditEnvironment(jnp.ones(2))
    environment = SelectedEnvironment((bad, good), jnp.array(1), jnp.array(5), ("bad", "good"))
    state, _ = environment.init(key=KEY)
    after, outcome = environment.step(state, jnp.array(1), key=KEY)
    assert float(outcome.reward) == 1.0 and float(outcome.record["bad"]["regret"]) == 0.0
    resumed, shown = environment.resume(after, key=KEY)
    assert int(resumed["step"]) == 0 and shown.keys() == {"last action", "last reward"}


def test_mixtures_and_curricula_take_environments_of_one_class():
    easy, hard = tasks.BernoulliBandit(probability=1.0), tasks.BernoulliBandit(probability=0.0)
    mixture = tasks.Mixture([easy, hard], loss=tasks.reward_loss())
    trials = popsim.sample_trials(mixture, 100, batch=0, key=KEY)
    expected = np.where(np.asarray(trials.conditions["task"]) == 0, 1.0, 0.0)
    np.testing.assert_array_equal(trials.environment.probabilities, np.tile(expected[:, None], (1, 2)))
    curriculum = tasks.TaskCurriculum([easy, hard], starts=[0, 10], loss=tasks.reward_loss())
    for batch, probability in ((0, 1.0), (10, 0.0)):
        trial = curriculum.trial(batch=batch, key=KEY)
        np.testing.assert_array_equal(trial.environment.probabilities, np.full(2, probability))
    assert curriculum.validation_trials().environment.probabilities.shape == (200, 2)


@pytest.mark.parametrize("other", [tasks.TwoStepTask(n_choices=50), tasks.BernoulliBandit(n_arms=3)])
def test_other_environments_are_refused_in_a_mixture(other):
    with pytest.raises(ValueError, match="conditions and environment, but tasks"):
        tasks.Mixture([tasks.BernoulliBandit(), other], loss=tasks.reward_loss())
