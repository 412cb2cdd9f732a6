"""The two-step task against its definition, and the agents that tell its two strategies apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import tasks

KEY = jax.random.key(1)
TASK = tasks.TwoStepTask()


@pytest.fixture(scope="module")
def trials():
    return popsim.sample_trials(TASK, 500, batch=0, key=jax.random.key(3))


def choices(player, trials):
    """Actions, rewards and whether the transition was common, of each choice."""
    played = jax.tree.map(np.asarray, tasks.play(player, trials, key=KEY))
    return played, played.action[:, ::2], played.reward[:, 1::2], played.record["is common"][:, ::2]


def stay_probabilities(player, trials):
    """How often a choice is repeated after: reward common, reward rare, none common, none rare."""
    _, action, reward, common = choices(player, trials)
    stays = action[:, 1:] == action[:, :-1]
    before = [
        (reward[:, :-1] == paid) & (common[:, :-1] == is_common) for paid in (1, 0) for is_common in (1, 0)
    ]
    return np.array([stays[which].mean() for which in before])


def test_transitions_rewards_and_reversals_have_their_probabilities(trials):
    played, action, reward, common = choices(tasks.RandomPlayer(2), trials)
    stage, good = played.record["second stage"][:, ::2], played.record["good stage"][:, ::2]
    np.testing.assert_allclose(common.mean(), 0.8, atol=5 * 0.4 / common.size**0.5)
    np.testing.assert_array_equal(stage == action, common)
    at_good = reward[stage == good].mean(), reward[stage != good].mean()
    np.testing.assert_allclose(at_good, (0.9, 0.1), atol=5 * 0.3 / 25_000**0.5)
    np.testing.assert_allclose((np.diff(good) != 0).mean(), 0.025, atol=5 * (0.025 / good.size) ** 0.5)
    np.testing.assert_array_equal(good[:, 0], trials.conditions["first good stage"])


def test_a_choice_takes_two_steps_and_is_paid_at_the_second(trials):
    played, *_ = choices(tasks.RandomPlayer(2), trials)
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


def test_the_observer_is_the_best_player(trials):
    players = (
        tasks.TwoStepObserver(TASK),
        tasks.ModelBasedAgent(),
        tasks.ModelFreeAgent(),
        tasks.RandomPlayer(2),
    )
    rewards = [choices(player, trials)[2].mean() for player in players]
    assert rewards == sorted(rewards, reverse=True) and abs(rewards[-1] - 0.5) < 0.02
    # It cannot be paid more than one who knows the better stage: .9 × .8 + .1 × .2.
    assert 0.68 < rewards[0] < 0.74


def test_a_better_stage_that_is_reached_rarely_is_reached_by_the_other_action():
    task = tasks.TwoStepTask(common_probability=0.1, hazard_rate=0.0)
    trials = popsim.sample_trials(task, 100, batch=0, key=KEY)
    played, _, reward, _ = choices(tasks.TwoStepObserver(task), trials)
    assert reward[:, 20:].mean() > 0.75 and jnp.all(played.record["good stage"][:, 0] < 2)
