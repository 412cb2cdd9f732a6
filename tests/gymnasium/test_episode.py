"""Agents in the place of networks, and trials as episodes: what they observe, do and are paid."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth_row
from small_environments import AnsweringTask, CatchTask, Lottery
from small_reaches import small_reach_setup
from small_tasks import Choose, choice_loss, pushed_reaches
from small_training import RunningSum

import popsim
from popsim import losses
from popsim.gymnasium import (
    Agent,
    StepRewards,
    TaskEnv,
    advance_episode,
    agent_loop,
    agent_network_model,
    begin_episode,
    default_limits,
    with_agent,
)
from popsim.gymnasium.episode import observation_layout, stepwise_terms
from popsim.policies import Categorical, Gaussian

PLANT = popsim.plants.PointMass()
REACH = popsim.tasks.RandomReaches(PLANT.workspace, duration=0.1)
LOOP = agent_loop(REACH, PLANT, {}, motor_noise=popsim.MotorNoise(0.1, 0.01))


def test_a_loop_for_an_agent_fits_the_task_and_the_body():
    task = pushed_reaches(PLANT)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.02)}
    loop = agent_loop(task, PLANT, channels, interventions=(popsim.interventions.ConstantForce(),))
    loop.check(task.validation_trials())
    assert (loop.network.n_inputs, loop.network.n_outputs, loop.dt) == (6, 2, 0.01)
    with pytest.raises(ValueError, match="n_outputs"):
        Agent(3, 0)


def test_an_agent_alone_has_the_outputs_of_the_task():
    for task, n_inputs in ((Choose(), 3), (RunningSum(), 1)):
        model = agent_network_model(task)
        assert (model.network.n_inputs, model.network.n_outputs) == (n_inputs, 1)
        model.check(task.validation_trials())
    for task, said in ((REACH, "agent_loop"), (CatchTask(PLANT.workspace), "agent_loop.*got .*Catch")):
        with pytest.raises(ValueError, match=said):
            agent_network_model(task)


def test_an_agent_takes_the_place_of_the_policy():
    network = popsim.networks.GRUNetwork(5, 4, 4, key=jax.random.key(0))
    choosing = with_agent(popsim.NetworkModel(network, policy=Categorical(3, critic=True), dt=0.1))
    alone = agent_network_model(AnsweringTask(Lottery))
    assert choosing.policy == alone.policy and choosing.network.n_outputs == choosing.policy.n_outputs == 1
    vectors = with_agent(popsim.NetworkModel(network, policy=Gaussian(3, critic=True), dt=0.1))
    assert (vectors.policy, vectors.network.n_outputs) == (None, 3)


def test_muscles_are_excited_from_zero_to_one():
    loops = [agent_loop(REACH, plant, {}) for plant in (PLANT, popsim.plants.muscled_point_mass())]
    assert [default_limits(loop) for loop in loops] == [(-10.0, 10.0), (0.0, 1.0)]
    assert default_limits(agent_network_model(Choose())) == (-5.0, 5.0)


@eqx.filter_jit
def run(model, network, trial, key, rewards):
    """A network in the place of the agent: what it observed, its rewards, and the episode at the end."""
    episode, observed = begin_episode(model, rewards, trial, key=key)

    def step(carry, t):
        episode, observed, hidden = carry
        noise = popsim.key_stream(jax.random.fold_in(popsim.key_stream(key, "steps"), t), "network")
        hidden = network.step(observed, hidden, key=noise)
        episode, after, reward = advance_episode(model, rewards, episode, network.read_out(hidden))
        return (episode, after, hidden), (observed, reward)

    start, steps = (episode, observed, network.init(key=key)), jnp.arange(trial.timeline.n_steps)
    (episode, _, _), (observations, paid) = jax.lax.scan(step, start, steps)
    return observations, paid, episode


def test_a_network_in_the_place_of_the_agent_does_what_simulate_does(getkey):
    """With delays, noise, scaling and a push: observation, course and loss are the same."""
    model = small_reach_setup()[1](getkey())
    task = pushed_reaches(model.plant)
    scaling = {"target": popsim.Scaling([0.0, 0.1], [0.1, 0.2])}
    model = dataclasses.replace(model, scaling=scaling, interventions=(popsim.interventions.ConstantForce(),))
    key = getkey()
    trial = jax.tree.map(lambda leaf: leaf[-1], task.validation_trials())
    assert trial.interventions["constant force"].active.any()
    states = popsim.simulate(model, trial, key=key)
    agent = with_agent(model)
    observed, paid, episode = run(agent, model.network, trial, key, StepRewards(task.loss))
    np.testing.assert_allclose(observed, model.network_inputs(states, trial), atol=1e-5)
    np.testing.assert_allclose(episode.states.hand.position, states.hand.position, atol=1e-6)
    np.testing.assert_allclose(episode.states.external_force, states.external_force, atol=1e-6)
    terms = task.loss(states, trial, model).terms
    seen = sum(value for name, value in terms.items() if name != "hidden activity")
    np.testing.assert_allclose(paid.sum(), -seen, rtol=1e-4)
    layout = observation_layout(agent, trial)
    assert layout == {"target": slice(0, 2), "proprioception": slice(2, 6), "vision": slice(6, 10)}


class Surprise(popsim.AbstractLossTerm):
    name: str = eqx.field(static=True, default="surprise")

    def __call__(self, states, trial, model):
        sign = jnp.sign(trial.targets.values - 0.5)
        return jnp.sum(jax.nn.softplus(-sign * states.network.output))

    def step_cost(self, state, trial_at_step, model):
        return self(state, trial_at_step, model)


def test_without_a_body_the_observation_is_the_input_and_rewards_add_up_to_the_loss(getkey):
    """Also of a term that no output makes zero, and of one that is paid at the end."""
    task, loss = Choose(), Surprise() + 2.0 * choice_loss()
    trial, model = task.trial(batch=0, key=getkey()), agent_network_model(task)
    network = popsim.networks.GRUNetwork(3, 4, 1, key=getkey())
    observed, paid, episode = run(model, network, trial, getkey(), StepRewards(loss))
    layout = observation_layout(model, trial)
    assert layout == {"cues": slice(0, 2), "stimulus": slice(2, 3)} and episode.step == 20
    for name, where in layout.items():
        np.testing.assert_array_equal(observed[:, where], trial.inputs[name])
    terms = loss(episode.states, trial, model).terms
    np.testing.assert_allclose(paid.sum(), -sum(terms.values()), rtol=1e-5)
    np.testing.assert_allclose([episode.costs[name] for name in terms], [*terms.values()], rtol=1e-5)
    assert np.all(paid[:-1] < 0) and paid[-1] < -terms["final choice"]
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], trial)
    assert stepwise_terms(StepRewards(loss), model, one, jnp.ones((1, 20, 1))) == ("surprise", "output error")
    with_end = begin_episode(model, StepRewards(loss), trial, keeps_states=False, key=getkey())[0]
    assert with_end.states is not None  # which the term at the end needs
    stepwise = StepRewards(Surprise() + 2.0 * losses.OutputError())
    assert begin_episode(model, stepwise, trial, keeps_states=False, key=getkey())[0].states is None


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
            (losses.FinalVelocity(), True),
            (losses.PositionError(), True),
            (losses.Effort(), True),
            (losses.HiddenActivity(), True),
            (losses.Jerk(), False),
            (losses.WeightPenalty(lambda model: model.network), False),
            (Far(1.0), True),
            (popsim.FunctionTerm("farthest", farthest), False),
        ],
        4,
    ),
    ids=lambda given: getattr(given, "name", None),
)
def test_sums_over_time_steps_are_told_from_other_terms(term, is_sum):
    trials = jax.tree.map(lambda leaf: leaf[:1], REACH.validation_trials())
    actions = jnp.asarray(np.random.default_rng(0).normal(size=(1, 10, 2)), jnp.float32)
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
    for term, said in (
        (Far(2.0), "`step_cost` of the term 'far' must add up to its value"),
        (Change(), "`step_cost` of the term 'change' must add up to its value"),
        (popsim.FunctionTerm("infinite", infinite), "`loss` must be finite, got .*'infinite'"),
    ):
        with pytest.raises(ValueError, match=said):
            TaskEnv(REACH, LOOP, loss=1.0 * term)
