"""Mixtures, curricula and wrappers of tasks whose trials have environments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import tasks
from popsim.environment import AbstractEnvironment, Box, Outcome
from popsim.tasks.rewards.bandits import BanditEnvironment
from popsim.tasks.selected_environment import SelectedEnvironment

KEY = jax.random.key(0)
BANDIT, GO = tasks.BernoulliBandit(n_arms=3, n_choices=15, dt=0.05), tasks.GoNoGo()


@pytest.fixture(scope="module")
def mixed():
    task = tasks.MultiTask({"bandit": BANDIT, "go": GO}, loss=tasks.reward_loss())
    trials = popsim.sample_trials(task, 400, batch=0, key=KEY)
    played = jax.tree.map(np.asarray, tasks.play(tasks.RandomPlayer(3), trials, key=KEY))
    return task, trials, played, np.asarray(trials.conditions["task"]) == 0


def test_different_environments_become_one(mixed):
    task, trials, played, is_bandit = mixed
    assert isinstance(trials.environment, SelectedEnvironment) and trials.environment.actions.n == 3
    assert 0.4 < is_bandit.mean() < 0.6 and trials.targets == () and trials.timeline.n_steps == 24
    assert {name: shown.shape[1:] for name, shown in played.received.items()} == {
        "last action": (24, 3),
        "last reward": (24, 1),
    }
    assert popsim.n_network_inputs(task.validation_trials()) == 3 + 1 + 2 + 2


def test_the_environments_that_are_not_selected_stay_as_they_are(mixed):
    _, trials, _, is_bandit = mixed
    for of_bandit in (True, False):
        index = np.flatnonzero(is_bandit == of_bandit)[0]
        trial = jax.tree.map(lambda leaf, index=index: leaf[index], trials)
        state, _ = trial.environment.init(key=KEY)
        after, _ = trial.environment.step(state, jnp.asarray(1), key=KEY)
        other = int(of_bandit)
        jax.tree.map(np.testing.assert_array_equal, after["states"][other], state["states"][other])


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


def test_validation_trials_are_those_of_all_tasks(mixed):
    task, *_ = mixed
    trials = task.validation_trials()
    of_bandit = BANDIT.validation_trials()
    selected = np.asarray(trials.environment.selected)
    np.testing.assert_array_equal(selected, trials.conditions["task"])
    np.testing.assert_array_equal(
        np.asarray(trials.environment.environments[0].probabilities)[selected == 0],
        of_bandit.environment.probabilities,
    )


def test_an_environment_that_is_not_selected_may_be_anything():
    bad = BanditEnvironment(jnp.full(2, jnp.nan))
    good = BanditEnvironment(jnp.ones(2))
    environment = SelectedEnvironment((bad, good), jnp.array(1), jnp.array(5), ("bad", "good"))
    state, _ = environment.init(key=KEY)
    after, outcome = environment.step(state, jnp.array(1), key=KEY)
    assert float(outcome.reward) == 1.0 and float(outcome.record["bad"]["regret"]) == 0.0
    resumed, shown = environment.resume(after, key=KEY)
    assert int(resumed["step"]) == 0 and shown.keys() == {"last action", "last reward"}


class Move(AbstractEnvironment):
    """Takes vectors."""

    actions = Box(2)

    def init(self, *, key):
        return (), {}

    def step(self, state, action, *, key):
        return state, Outcome({}, jnp.sum(action), jnp.array(False))


class Moving(tasks.BernoulliBandit):
    def draw(self, *, key):
        return Move(), {}


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"move": Moving(dt=0.05)}, "all take discrete actions, or all vectors"),
        ({"decide": tasks.PerceptualDecision()}, "`tasks` must all have targets, or none of them"),
    ],
)
def test_what_cannot_be_mixed_is_refused(others, message):
    task = tasks.MultiTask({"bandit": BANDIT, **others}, loss=tasks.reward_loss())
    with pytest.raises(ValueError, match=message):
        task.trial(batch=0, key=KEY)


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


def test_wrappers_keep_the_environment():
    held_out = tasks.HeldOutConditions(tasks.BernoulliBandit(), lambda labels: labels["best arm"] == 0)
    trials = popsim.sample_trials(held_out, 30, batch=0, key=KEY)
    probabilities = np.asarray(trials.environment.probabilities)
    assert np.all(probabilities[:, 1] > probabilities[:, 0])
    schedule = popsim.schedules.LinearSchedule(0.5, 0.9, last_batch=10)
    changing = tasks.ParameterCurriculum(tasks.ReversalLearning(), lambda t: t.reward_probability, schedule)
    for batch, p in ((0, 0.5), (10, 0.9)):
        environment = changing.trial(batch=batch, key=KEY).environment
        np.testing.assert_allclose(environment.reward_probability, p, rtol=1e-6)
    fixating = tasks.WithFixation(tasks.GoNoGo(), "stimulus on").trial(batch=0, key=KEY)
    assert set(fixating.inputs) == {"fixation", "stimulus"} and fixating.environment is not None


@pytest.mark.full
def test_a_description_names_the_environment():
    text = str(tasks.BernoulliBandit(n_arms=3).describe())
    assert "BanditEnvironment" in text and "Discrete(n=3)" in text and "last action" in text
    description = tasks.GoNoGo().describe().environment
    assert (description.name, description.shows) == ("ResponseEnvironment", {})
    assert tasks.PerceptualDecision().describe().environment is None
    assert "BanditEnvironment" in BANDIT.validation_trials()._repr_html_()
