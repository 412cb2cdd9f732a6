"""The staircase and the changing environment: what they show and pay, and their best players."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth_row, mostly_in_full

import popsim
from popsim import tasks
from popsim.tasks import ChangingEnvironment, ChangingEnvironmentObserver
from references import paid_choices

KEY = jax.random.key(0)


def played(task, player, n):
    trials = popsim.sample_trials(task, n, batch=0, key=jax.random.key(3))
    return jax.tree.map(np.asarray, tasks.play(player, trials, key=KEY))


def test_a_target_is_paid_if_direction_and_context_are_right_and_contexts_change_at_the_hazard_rate():
    n = 300
    interaction = played(ChangingEnvironment(hazard_rate=0.2), tasks.RandomPlayer(4), n)
    record, action = interaction.record, interaction.action
    np.testing.assert_array_equal(interaction.reward, action == 2 * record["context"] + record["direction"])
    changes = np.diff(record["context"], axis=1) != 0
    np.testing.assert_allclose(changes.mean(), 0.2, atol=5 * (0.16 / changes.size) ** 0.5)
    off = record["coherence"] != 0
    np.testing.assert_array_equal(record["direction"][off], record["coherence"][off] > 0)
    np.testing.assert_allclose(record["direction"][~off].mean(), 0.5, atol=2.5 / (~off).sum() ** 0.5)
    noise = interaction.received["evidence"][..., 0] - record["coherence"]
    np.testing.assert_allclose([noise.mean(), noise.std()], [0, 0.1], atol=0.003)
    np.testing.assert_array_equal(interaction.received["last reward"][:, 1:, 0], interaction.reward[:, :-1])
    shown = interaction.received["last action"]
    np.testing.assert_array_equal(shown[:, 1:], np.eye(4)[action[:, :-1]])


@pytest.mark.parametrize(("hazard", "noise"), every_nth_row([(0.1, 0.1), (0.02, 0.3)], 2))
def test_the_observer_reaches_the_reward_of_the_best_player(hazard, noise):
    task, n = ChangingEnvironment(hazard_rate=hazard, noise_std=noise, n_choices=60), 1000
    reward = played(task, ChangingEnvironmentObserver(task), n).reward.mean(1).astype(float)
    coherences = np.asarray(task.coherence.values, float)
    bound = paid_choices.reward_in_changing_environment(coherences, noise, hazard, 60)
    assert reward.mean() == pytest.approx(bound, abs=4 * reward.std() / n**0.5)


def test_a_clear_error_speaks_more_for_a_change_than_an_unclear_one():
    task = ChangingEnvironment()
    observer = ChangingEnvironmentObserver(task)
    error = {"evidence": jnp.zeros(1), "last action": jax.nn.one_hot(0, 4), "last reward": jnp.zeros(1)}
    second = [
        float(observer.choose(error, (jnp.array(0.1), jnp.array(sureness)), key=KEY)[1][0])
        for sureness in (0.5, 0.9, 1.0)
    ]
    # The odds of the first context, 9, times 1 - q; then a change with probability .1.
    odds = [1 / (1 + 9 * (1 - q)) for q in (0.5, 0.9, 1.0)]
    np.testing.assert_allclose(second, [0.9 * p + 0.1 * (1 - p) for p in odds], rtol=1e-5)


@pytest.mark.parametrize("n_correct", mostly_in_full([1, 2, 3], [2]))
def test_evidence_is_weaker_after_correct_choices_in_a_row_and_stronger_after_an_error(n_correct):
    task = tasks.StaircaseDecision(n_correct=n_correct)
    interaction = played(task, tasks.StaircaseObserver(), 40)
    record, is_right = interaction.record, interaction.action == interaction.record["direction"]
    np.testing.assert_array_equal(interaction.reward, is_right)
    np.testing.assert_array_equal(record["coherence"], np.asarray(task.coherences)[record["level"]])
    for levels, right in zip(record["level"], is_right, strict=True):
        level, in_a_row = 5, 0
        for shown, correct in zip(levels, right, strict=True):
            assert shown == level
            in_a_row = in_a_row + 1 if correct else 0
            if in_a_row == n_correct:
                level, in_a_row = max(level - 1, 0), 0
            elif not correct:
                level = min(level + 1, 5)
    signs = 2 * record["direction"] - 1
    noise = interaction.received["evidence"][..., 0] - signs * record["coherence"]
    np.testing.assert_allclose([noise.mean(), noise.std()], [0, 0.1], atol=0.01)
    assert abs(record["direction"].mean() - 0.5) < 2.5 / noise.size**0.5
