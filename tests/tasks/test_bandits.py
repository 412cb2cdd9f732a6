"""Bandits, reversals and the two-step task against their definitions, and their players."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import tasks
from popsim.tasks.rewards.bandits import BanditEnvironment, DriftingEnvironment, ReversalEnvironment
from popsim.tasks.rewards.players import belief_after

KEY = jax.random.key(0)


def steps_of(environment, actions, n=4000):
    """The outcomes of `n` plays of a sequence of actions."""

    def play(key):
        state, shown = environment.init(key=key)

        def step(state, at):
            return environment.step(state, at[0], key=jax.random.fold_in(key, at[1]))

        return shown, jax.lax.scan(step, state, (jnp.asarray(actions), jnp.arange(len(actions))))[1]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(jax.random.split(KEY, n)))


def five_errors(p, n):
    return 5 * np.sqrt(p * (1 - p) / n)


def test_an_arm_pays_with_its_probability_and_the_choice_is_shown():
    shown, outcome = steps_of(BanditEnvironment(jnp.array([0.2, 0.5, 0.9])), [0, 1, 2])
    np.testing.assert_allclose(outcome.reward.mean(0), [0.2, 0.5, 0.9], atol=five_errors(0.5, 4000))
    np.testing.assert_allclose(outcome.record["regret"][0], [0.7, 0.4, 0.0], atol=1e-6)
    np.testing.assert_array_equal(outcome.observation["last action"][0], np.eye(3))
    np.testing.assert_array_equal(outcome.observation["last reward"][..., 0], outcome.reward)
    assert not outcome.done.any() and all(not leaf.any() for leaf in shown.values())


def test_arms_drift_as_decaying_walks_and_pay_with_noise():
    means = jnp.array([0.9, 0.1])
    environment = DriftingEnvironment(means, *map(jnp.asarray, (0.9, 0.5, 0.03, 0.04)))
    _, outcome = steps_of(environment, [0, 1, 0], n=20_000)
    walk = outcome.record["means"]
    np.testing.assert_allclose(walk[:, 0], np.tile(means, (20_000, 1)), rtol=1e-6)
    np.testing.assert_allclose(walk[:, 1].mean(0), [0.86, 0.14], atol=5 * 0.03 / 20_000**0.5)
    np.testing.assert_allclose(walk[:, 2].std(0), 0.03 * (1 + 0.81) ** 0.5, rtol=0.03)
    chosen = np.take_along_axis(walk, np.array([0, 1, 0])[None, :, None], 2)[..., 0]
    noise, drift = outcome.reward - chosen, np.diff(walk, axis=1)
    np.testing.assert_allclose(noise.std(0), 0.04, rtol=0.03)
    correlations = np.corrcoef(noise[:, 0], drift[:, 0].T)[0, 1:]
    np.testing.assert_allclose(correlations, 0.0, atol=5 / 20_000**0.5)
    np.testing.assert_allclose(outcome.record["regret"], walk.max(-1) - chosen, atol=1e-6)


def test_arms_are_exchanged_at_the_hazard_rate():
    environment = ReversalEnvironment(jnp.array(True), jnp.asarray(0.8), jnp.asarray(0.1))
    _, outcome = steps_of(environment, [1, 0] * 20)
    good = outcome.record["good arm"]
    assert np.all(good[:, 0] == 1)
    reverses = np.diff(good, axis=1) != 0
    np.testing.assert_allclose(reverses.mean(), 0.1, atol=five_errors(0.1, reverses.size))
    is_good = good == np.tile([1, 0], 20)
    for which, p in ((is_good, 0.8), (~is_good, 0.2)):
        np.testing.assert_allclose(outcome.reward[which].mean(), p, atol=five_errors(p, which.sum()))
    np.testing.assert_allclose(outcome.record["regret"], np.where(is_good, 0.0, 0.6), atol=1e-6)


EVEN, DRIFTING = tasks.BernoulliBandit(n_arms=3, n_choices=60), tasks.DriftingBandit(n_choices=60)


@pytest.fixture(scope="module")
def bandits():
    """400 trials of each bandit."""
    return [popsim.sample_trials(task, 400, batch=0, key=jax.random.key(3)) for task in (EVEN, DRIFTING)]


def test_observers_regret_less_than_half_of_chance_and_less_if_they_explore(bandits):
    of_drifting = [tasks.KalmanBandit(DRIFTING), tasks.KalmanBandit(DRIFTING, explores=False)]
    # Of three even numbers the largest is 3/4 on average, one that is drawn 1/2; that of four normal ones is
    # 1.029 standard deviations.
    expected = (1 / 4, 1.029 * float(DRIFTING.stationary_std))
    for trials, players, chance in zip(
        bandits, ([tasks.ThompsonSampling(3)], of_drifting), expected, strict=True
    ):
        players = [*players, tasks.RandomPlayer(trials.environment.actions.n)]
        regrets = [
            np.asarray(tasks.play(player, trials, key=KEY).record["regret"]).sum(1) for player in players
        ]
        *means, of_chance = [regret.mean() for regret in regrets]
        assert means == sorted(means) and means[-1] < 0.5 * of_chance
        np.testing.assert_allclose(of_chance, 60 * chance, atol=5 * regrets[-1].std() / 400**0.5)


def test_arms_without_noise_or_drift_are_known_after_one_choice():
    task = tasks.DriftingBandit(n_arms=2, n_choices=4, drift_std=0.0, noise_std=0.0)
    trials = popsim.sample_trials(task, 3, batch=0, key=KEY)
    played = tasks.play(tasks.KalmanBandit(task), trials, key=KEY)
    assert np.isfinite(played.reward).all() and not np.asarray(played.record["regret"]).any()


@pytest.mark.parametrize("hazard", [0.0, 0.05, 1.0])
def test_a_belief_that_is_nearly_sure_stays_finite_and_can_change(hazard):
    """The odds in extended precision, at log odds whose probability is one in single precision."""
    log_odds, p = np.array([-40.0, -17.0, -1.0, 0.0, 1.0, 17.0, 40.0]), 0.8
    for sign, reward in itertools.product((-1.0, 1.0), (0.0, 1.0)):
        found = jax.vmap(belief_after, in_axes=(0, None, None, None, None))(
            *map(jnp.asarray, (log_odds, sign, reward, p, hazard))
        )
        odds = np.exp(log_odds.astype(np.longdouble)) * (p / (1 - p)) ** (sign * (2 * reward - 1))
        expected = np.log((1 - hazard) * odds + hazard) - np.log(hazard * odds + (1 - hazard))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_trials_say_what_was_drawn(bandits):
    trials, drifting = bandits
    np.testing.assert_array_equal(trials.conditions["probabilities"], trials.environment.probabilities)
    np.testing.assert_array_equal(trials.conditions["best arm"], trials.environment.probabilities.argmax(-1))
    drawn = popsim.sample_trials(tasks.ReversalLearning(), 50, batch=0, key=KEY)
    np.testing.assert_array_equal(drawn.conditions["first good arm"], drawn.environment.second_is_good)
    means = drifting.environment.means
    np.testing.assert_allclose(means.mean(), 0.5, atol=0.02)
    np.testing.assert_allclose(means.std(), 0.028 / (1 - 0.9836**2) ** 0.5, rtol=0.06)


@pytest.mark.parametrize(
    "task", [tasks.ReversalLearning(hazard_rate=1.0), tasks.TwoStepTask(hazard_rate=1.0)]
)
def test_in_a_session_a_reversal_lasts_into_the_next_trial(task):
    environment = jax.tree.map(lambda leaf: leaf[0], task.validation_trials()).environment
    good = "good arm" if isinstance(task, tasks.ReversalLearning) else "good stage"
    state, _ = environment.init(key=KEY)
    goods = []
    for _ in range(4):
        state, outcome = environment.step(state, jnp.asarray(0), key=KEY)
        goods.append(int(outcome.record[good]))
        state, _ = environment.resume(state, key=KEY)
    first = int(environment.second_is_good)
    expected = [0, 1, 0, 1] if good == "good arm" else [0, 0, 1, 1]
    assert goods == [first ^ flip for flip in expected]


TASK = tasks.TwoStepTask()


@pytest.fixture(scope="module")
def trials():
    return popsim.sample_trials(TASK, 500, batch=0, key=jax.random.key(3))


def choices(player, trials):
    """The interaction, and actions, rewards and whether the transition was common, of each choice."""
    played = jax.tree.map(np.asarray, tasks.play(player, trials, key=jax.random.key(1)))
    return played, played.action[:, ::2], played.reward[:, 1::2], played.record["is common"][:, ::2]


@pytest.fixture(scope="module")
def by_chance(trials):
    return choices(tasks.RandomPlayer(2), trials)


def stay_probabilities(player, trials):
    """How often a choice is repeated after: reward common, reward rare, none common, none rare."""
    _, action, reward, common = choices(player, trials)
    stays = action[:, 1:] == action[:, :-1]
    before = [
        (reward[:, :-1] == paid) & (common[:, :-1] == is_common) for paid in (1, 0) for is_common in (1, 0)
    ]
    return np.array([stays[which].mean() for which in before])


def test_transitions_rewards_and_reversals_have_their_probabilities(trials, by_chance):
    played, action, reward, common = by_chance
    stage, good = played.record["second stage"][:, ::2], played.record["good stage"][:, ::2]
    np.testing.assert_allclose(common.mean(), 0.8, atol=5 * 0.4 / common.size**0.5)
    np.testing.assert_array_equal(stage == action, common)
    at_good = reward[stage == good].mean(), reward[stage != good].mean()
    np.testing.assert_allclose(at_good, (0.9, 0.1), atol=5 * 0.3 / 25_000**0.5)
    np.testing.assert_allclose((np.diff(good) != 0).mean(), 0.025, atol=5 * (0.025 / good.size) ** 0.5)
    np.testing.assert_array_equal(good[:, 0], trials.conditions["first good stage"])


def test_a_choice_takes_two_steps_and_is_paid_at_the_second(by_chance):
    played, *_ = by_chance
    assert played.reward.shape[1] == 2 * TASK.n_choices and not played.reward[:, ::2].any()
    shown = played.received["stage"]
    assert np.all(shown[:, ::2] == [1, 0, 0]) and not shown[:, 1::2, 0].any()
    np.testing.assert_array_equal(shown[:, 1::2, 1:].argmax(-1), played.record["second stage"][:, ::2])
    np.testing.assert_array_equal(played.record["is choice"][0], np.tile([True, False], TASK.n_choices))
    np.testing.assert_array_equal(played.received["last reward"][:, 1:, 0], played.reward[:, :-1])


def test_only_the_agent_with_a_model_is_moved_by_the_transition(trials):
    common, rare, unpaid_common, unpaid_rare = stay_probabilities(tasks.ModelBasedAgent(), trials)
    assert min(common, unpaid_rare) > 0.8 and max(rare, unpaid_common) < 0.5
    common, rare, unpaid_common, unpaid_rare = stay_probabilities(tasks.ModelFreeAgent(), trials)
    assert min(common, rare) > max(unpaid_common, unpaid_rare) + 0.1
