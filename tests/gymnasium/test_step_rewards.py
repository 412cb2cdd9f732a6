import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth_row
from small_tasks import Choose, choice_loss

import popsim
from popsim import losses
from popsim.gymnasium import TaskEnv
from popsim.gymnasium.agent import agent_loop, agent_network_model
from popsim.gymnasium.episode import (
    StepRewards,
    advance_episode,
    begin_episode,
    stepwise_terms,
)

PLANT = popsim.plants.PointMass()
REACH = popsim.tasks.RandomReaches(PLANT.workspace, duration=0.1)
LOOP = agent_loop(REACH, PLANT, {}, motor_noise=popsim.MotorNoise(0.1, 0.01))


@eqx.filter_jit
def drawn(task, key, n):
    return jax.vmap(lambda k: task.trial(batch=0, key=k))(jax.random.split(key, n))


def rewards_of(task, model, loss, key):
    """The rewards of all steps of a trial with random actions, its states, and the trial."""
    trial = jax.tree.map(lambda leaf: leaf[0], drawn(task, key, 1))
    actions = jax.random.normal(key, (trial.timeline.n_steps, model.network.n_outputs))
    each = stepwise_terms(StepRewards(loss), model, *jax.tree.map(lambda leaf: leaf[None], (trial, actions)))
    episode, _ = begin_episode(model, StepRewards(loss), trial, key=key)
    rewards = []
    for action in actions:
        episode, _, reward = advance_episode(model, StepRewards(loss), episode, action)
        rewards.append(reward)
    np.testing.assert_allclose(sum(episode.costs.values()), -sum(rewards), rtol=1e-5)
    return np.asarray(rewards), episode.states, trial, each


def farthest(states, trial, model):
    return jnp.max(jnp.abs(states.hand.position - trial.targets.position))


class Far(popsim.AbstractLossTerm):
    """The distance from the target in all steps, and a cost of a step that is `factor` times as large."""

    factor: float = eqx.field(static=True)
    name: str = eqx.field(static=True, default="far")

    def __call__(self, states, trial, model):
        return jnp.sum(jnp.abs(states.cursor.position - trial.targets.position))

    def step_cost(self, state, trial_at_step, model):
        return self.factor * jnp.sum(jnp.abs(state.cursor.position - trial_at_step.targets.position))


@pytest.mark.parametrize(
    ("term", "is_sum"),
    every_nth_row(
        [
            (losses.PositionError(), True),
            (losses.FinalVelocity(), True),
            (losses.Effort(), True),
            (losses.HiddenActivity(), True),
            (Far(1.0), True),
            (losses.Jerk(), False),
            (losses.WeightPenalty(lambda model: model.network), False),
            (popsim.FunctionTerm("farthest", farthest), False),
        ],
        2,
    ),
    ids=lambda given: getattr(given, "name", None),
)
def test_sums_over_time_steps_are_told_from_other_terms(term, is_sum, getkey):
    trials, actions = drawn(REACH, getkey(), 1), jax.random.normal(getkey(), (1, 10, 2))
    assert stepwise_terms(StepRewards(1.0 * term), LOOP, trials, actions) == is_sum * (term.name,)


class Change(popsim.AbstractLossTerm):
    """How much commands change in all steps, of which nothing is paid at a step."""

    name: str = eqx.field(static=True, default="change")

    def __call__(self, states, trial, model):
        return jnp.sum(jnp.abs(jnp.diff(states.network.output, axis=0)))

    def step_cost(self, state, trial_at_step, model):
        return jnp.zeros(())


def infinite(states, trial, model):
    return jnp.sum(1 / (states.network.hidden * 0))


def test_costs_that_do_not_add_up_and_losses_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="`step_cost` of the term 'far' must add up to its value"):
        TaskEnv(REACH, LOOP, loss=1.0 * Far(2.0))
    with pytest.raises(ValueError, match="`step_cost` of the term 'change' must add up to its value"):
        TaskEnv(REACH, LOOP, loss=1.0 * Change())
    with pytest.raises(ValueError, match="`loss` must be finite, got .*'infinite'"):
        TaskEnv(REACH, LOOP, loss=1.0 * popsim.FunctionTerm("infinite", infinite))


@pytest.mark.full
def test_the_reward_of_a_reach_is_minus_the_cost_of_each_step(getkey):
    loss = losses.PositionError() + 0.1 * losses.FinalVelocity() + 1e-3 * losses.Effort()
    rewards, states, trial, _ = rewards_of(REACH, LOOP, loss, getkey())
    squared = np.sum(np.asarray(states.cursor.position - trial.targets.position) ** 2, axis=-1)
    cost = (np.arange(1, 11) / 10) ** 6 * squared + 1e-3 * np.sum(
        np.asarray(states.network.output) ** 2, axis=-1
    )
    cost[-1] += 0.1 * np.sum(states.cursor.velocity[-1] ** 2)
    np.testing.assert_allclose(rewards, -cost, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(rewards.sum(), -loss(states, trial, LOOP).total, rtol=1e-5)


class Surprise(popsim.AbstractLossTerm):
    name: str = eqx.field(static=True, default="surprise")

    def __call__(self, states, trial, model):
        sign = jnp.sign(trial.targets.values - 0.5)
        return jnp.sum(jax.nn.softplus(-sign * states.network.output))

    def step_cost(self, state, trial_at_step, model):
        return self(state, trial_at_step, model)


def test_rewards_add_up_to_the_loss_whatever_the_terms_are(getkey):
    """Also of one that no output makes zero."""
    loss = Surprise() + 2.0 * choice_loss()
    model = agent_network_model(Choose())
    rewards, states, trial, each = rewards_of(Choose(), model, loss, getkey())
    assert each == ("surprise", "output error")
    np.testing.assert_allclose(rewards.sum(), -loss(states, trial, model).total, rtol=1e-5)
    assert np.all(rewards[:-1] < 0)
